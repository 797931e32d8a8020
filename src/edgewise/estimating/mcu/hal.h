/* The functions of a board that runner.c needs. Write them for your board; hal.c has those of the emulated one. */
#ifndef EDGEWISE_HAL_H
#define EDGEWISE_HAL_H
#include <stdint.h>

void hal_start(void);            /* starts the clocks, the serial port and the timer */
void hal_put(char character);    /* waits until the serial port takes the character */
char hal_get(void);              /* waits for a character of the serial port */
uint32_t hal_microseconds(void); /* counts up and begins again at 0 after 2^32 */
void ew_runner(void);            /* runner.c: call it from main; it does not return */
#endif
