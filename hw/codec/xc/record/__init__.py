"""The record's recommendation: XC's parameters for the next transfer of such data."""
