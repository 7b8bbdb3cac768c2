"""The C header of descriptors and records: what a compiler makes of it is what numpy has."""

import shutil
import subprocess

import pytest

from cdma.hw.dma.control.descriptor import DESCRIPTOR_DTYPE, RECORD_DTYPE, Flag, Opcode, Status
from cdma.hw.dma.control.descriptor_header import descriptor_header, descriptor_header_name

HEADER = descriptor_header_name("cdma_engine")

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#include "{header}"
int main(void) {{
{prints}
  return 0;
}}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_compilers_see_the_same_fields(tmp_path, language):
    (tmp_path / HEADER).write_text(descriptor_header())
    expected, prints = [], []
    for name, dtype in (("cdma_descriptor", DESCRIPTOR_DTYPE), ("cdma_record", RECORD_DTYPE)):
        for field in dtype.names:
            offset = dtype.fields[field][1]
            expected.append(f"{name} {field} {offset} {dtype[field].itemsize}")
            place = f"offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field})"
            prints.append(f'  printf("{name} {field} %zu %zu\\n", {place});')
    for prefix, kind in (
        ("CDMA_OPCODE", Opcode),
        ("CDMA_FLAG", Flag),
        ("CDMA_STATUS", Status),
    ):
        for member in kind:
            expected.append(f"{prefix}_{member.name} {member.value}")
            prints.append(f'  printf("{prefix}_{member.name} %d\\n", {prefix}_{member.name});')
    source = tmp_path / "program.c"
    source.write_text(PROGRAM.format(header=HEADER, prints="\n".join(prints)))
    compiler = shutil.which("g++")
    assert compiler, "g++ is missing: apt-get install g++"
    program = tmp_path / "program"
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run([compiler, "-x", language, *flags, "-o", program, source], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert printed.splitlines() == expected
