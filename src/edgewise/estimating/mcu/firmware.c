/* Executes the network on its test inputs and reports over semihosting. */
#include "network.h"
#include "startup.h"

extern uint32_t ew_stack_top, ew_heap_begin[];

#define PAINT 0xA5A5A5A5u

static int32_t semihost(int32_t operation, const void *argument) {
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(const char *text) { semihost(4, text); }

static void finish(uint32_t code) {
    uint32_t block[2] = {0x20026, code};
    semihost(0x20, block);
    for (;;) {
    }
}

static void print_number(const char *name, uint64_t value) {
    char text[24];
    int32_t at = sizeof text - 1;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    print(name);
    print(" ");
    print(text + at);
    print("\n");
}

void ew_fault(const uint32_t *frame) {
    const uint32_t status = *(volatile uint32_t *)0xE000ED28;
    print_number("fault status", status);
    print_number("fault instruction", frame[6]);
    if (status & 0x0080) print_number("fault address", *(volatile uint32_t *)0xE000ED34);
    if (status & 0x8000) print_number("fault address", *(volatile uint32_t *)0xE000ED38);
    finish(1);
}

/* The plug-in of QEMU counts from one call to the next. */
__attribute__((noinline)) void ew_mark(void) { __asm__ volatile(""); }

static void print_bytes(const int8_t *bytes, int32_t count) {
    static const char digits[] = "0123456789abcdef";
    char text[65];
    while (count > 0) {
        int32_t now = count < 32 ? count : 32;
        for (int32_t i = 0; i < now; ++i) {
            text[2 * i] = digits[(uint8_t)bytes[i] >> 4];
            text[2 * i + 1] = digits[(uint8_t)bytes[i] & 15];
        }
        text[2 * now] = 0;
        print(text);
        bytes += now;
        count -= now;
    }
    print("\n");
}

/* The ticks of an operator; the operator EW_OPERATORS does nothing. */
__attribute__((noinline)) static uint64_t execute(int32_t at) {
    const uint64_t start = ew_ticks();
    ew_mark();
    ew_execute(at);
    ew_mark();
    return ew_ticks() - start;
}

void ew_main(void) {
    static uint64_t times[EW_OPERATORS + 1];
    /* A loop of a known number of instructions gives the ticks of one. */
    uint64_t begin = ew_ticks();
    uint32_t left = 100000;
    __asm__ volatile("1: subs %0, %0, #1\n bne 1b" : "+r"(left) : : "cc");
    print_number("ticks of 200000 instructions", ew_ticks() - begin);
    print_number("ticks of nothing", execute(EW_OPERATORS));
    for (uint32_t *word = ew_heap_begin; word < (uint32_t *)__builtin_frame_address(0) - 64; ++word) *word = PAINT;
    ew_reset();
    for (int32_t input = 0; input < EW_INPUTS; ++input) {
        ew_load(input);
        for (int32_t at = 0; at < EW_OPERATORS; ++at) {
            print_number("operator", (uint64_t)at);
            ew_current = at + 1;
            times[at] = execute(at);
            for (int32_t word = 0; word < 4; ++word)
                if (ew_heap_begin[word] != PAINT) {
                    print("stack overflow\n");
                    finish(1);
                }
        }
        ew_current = 0;
        for (int32_t at = 0; at < EW_OPERATORS; ++at) print_number("t", times[at]);
        for (int32_t at = 0; at < EW_OUTPUTS; ++at) {
            print("output ");
            print_bytes(ew_outputs[at].data, ew_outputs[at].count);
        }
    }
    uint32_t *lowest = ew_heap_begin;
    while (*lowest == PAINT) ++lowest;
    print_number("stack", (uint64_t)((uint8_t *)&ew_stack_top - (uint8_t *)lowest));
    print_number("scratch", (uint64_t)ew_scratch_needed);
    print_number("failed", (uint64_t)ew_failed);
    finish(0);
}
