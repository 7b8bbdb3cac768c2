"""Reports: one self-contained HTML page from the JSON objects that the commands print.

`write_report` is the way of `cdma report` and of every command's `--html`:

============== ===================================================================================
`documents`    JSON objects, read from files and told apart by their keys
`sections`     tables, pictures and timelines of a document, a module per command
`tables`       rows of JSON as tables, with the units that the keys' names say
`charts`       bars and lines, by matplotlib
`timeline`     events in the trace format as what the page's script draws
`page`         the template, its style and its scripts
============== ===================================================================================
"""

from cdma.report.documents import Document, read_documents
from cdma.report.writer import html_of, write_report

__all__ = ["Document", "html_of", "read_documents", "write_report"]
