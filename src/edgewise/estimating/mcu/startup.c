/* Start-up code of the emulated boards: memory, vectors, and a clock. */
#include "startup.h"

extern uint32_t ew_stack_top, ew_data_load, ew_data_begin, ew_data_end, ew_bss_begin, ew_bss_end;
static volatile uint32_t wraps;

#define SYSTICK ((volatile uint32_t *)0xE000E010)

__attribute__((naked)) static void fault(void) {
    __asm__ volatile("mrs r0, msp\n ldr r1, =ew_fault\n bx r1");
}

void ew_tick(void) { ++wraps; }

uint64_t ew_ticks(void) {
    uint32_t before, value;
    do {
        before = wraps;
        value = SYSTICK[2];
    } while (before != wraps);
    return ((uint64_t)before << 24) + (0xFFFFFFu - value);
}

void ew_start(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* coprocessors 10 and 11: FPU and Helium */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
    /* These cores fault on unaligned accesses; the emulated ones in their place do where they are told to. */
    *(volatile uint32_t *)0xE000ED14 |= 1u << 3;
#endif
    __asm__ volatile("dsb\n isb");
    for (uint32_t *from = &ew_data_load, *to = &ew_data_begin; to < &ew_data_end;) *to++ = *from++;
    for (uint32_t *to = &ew_bss_begin; to < &ew_bss_end;) *to++ = 0;
    SYSTICK[1] = 0xFFFFFF;
    SYSTICK[2] = 0;
    SYSTICK[0] = 7;
    while (!SYSTICK[2]) { /* it is loaded at the first tick */
    }
    ew_main();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &ew_stack_top, (void *)ew_start, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
    (void *)fault, (void *)fault, 0, 0, 0, (void *)fault, (void *)fault, 0, (void *)fault, (void *)ew_tick,
};
