"""Interrupts that several records share: what comes with one waits for the next, from then on."""

from tests.hw.dma.control.test_record import raises


def test_record_that_comes_with_a_late_interrupt_waits_as_long():
    assert raises({2, 12}, count=100, cycles=10) == [12, 22]


def test_record_that_comes_with_an_interrupt_of_many_waits_as_long():
    assert raises({2, 9, 10}, count=2, cycles=10) == [10, 20]
