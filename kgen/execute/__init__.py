"""Execution of generated kernels on the CPU, always in a child process with limits: a crash is a finding."""
