/* The serial port and the timer of the boards of Arm that QEMU emulates: a UART of the CMSDK, and SysTick. */
#include "hal.h"

#include "runner.h"
#include "startup.h"

#define UART ((volatile uint32_t *)EW_UART) /* data, state, control, interrupts, divider */

void hal_start(void) {
    UART[4] = EW_TICK_HZ / 115200;
    UART[2] = 3; /* transmitter and receiver */
}

void hal_put(char character) {
    while (UART[1] & 1) {
    }
    UART[0] = (uint8_t)character;
}

char hal_get(void) {
    while (!(UART[1] & 2)) {
    }
    return (char)UART[0];
}

uint32_t hal_microseconds(void) { return (uint32_t)(ew_ticks() * 1000000u / EW_TICK_HZ); }

void ew_main(void) { ew_runner(); }

void ew_fault(const uint32_t *frame) {
    const uint32_t address = frame[6];
    for (const char *text = "\r\ne-[fault at 0x"; *text; ++text) hal_put(*text);
    for (int32_t shift = 28; shift >= 0; shift -= 4) hal_put("0123456789abcdef"[address >> shift & 15]);
    hal_put(']');
    hal_put('\r');
    hal_put('\n');
    for (;;) {
    }
}
