/* Start-up code of the emulated boards. */
#ifndef EDGEWISE_STARTUP_H
#define EDGEWISE_STARTUP_H
#include <stdint.h>

uint64_t ew_ticks(void);               /* of SysTick since the start */
void ew_main(void);                    /* the program; it does not return */
void ew_fault(const uint32_t *frame);  /* `frame` is what the core pushed: r0 to r3, r12, lr, pc of the instruction */
#endif
