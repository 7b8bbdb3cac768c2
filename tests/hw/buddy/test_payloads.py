"""The numbers with which the rooms of the controller tell why an access failed."""

from cdma.golden.buddy.address_map import MapStatus
from cdma.hw.buddy.payloads import AccessStatus

STATUSES = {
    "OK": 0,
    "OUT_OF_REGION": 1,
    "BAD_TARGET": 2,
    "CARVE_OUT_OVERFLOW": 3,
    "UNSUPPORTED_BURST": 4,
    "METADATA_UNCORRECTABLE": 5,
    "METADATA_READ": 6,
    "DEVICE_READ": 7,
    "DEVICE_WRITE": 8,
    "BUDDY_READ": 9,
    "BUDDY_WRITE": 10,
    "CORRUPT_ENTRY": 11,
    "TIMEOUT": 12,
    "DISABLED": 13,
    "METADATA_LOST": 14,
}
"""As in the table of ERROR_STATUS in docs/reference/buddy-registers.md."""


def test_statuses_keep_the_numbers_that_software_knows():
    assert {status.name: status.value for status in AccessStatus} == STATUSES


def test_outcome_of_a_translation_is_the_status_of_its_number():
    for outcome in MapStatus:
        assert AccessStatus(outcome.value).name == outcome.name
