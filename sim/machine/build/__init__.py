"""RTL and C++ shims to shared libraries."""
