"""Microcontrollers: an int8 model lowered to C on CMSIS-NN, built for a Cortex-M core, and run in QEMU."""
