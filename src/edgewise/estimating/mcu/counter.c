/* A plug-in of QEMU: counts the executed instructions by class, and the bytes that they read from flash, between every
   odd call of ew_mark and the next one, without those of ew_tick. A line of the report has the counts of the classes,
   then the bytes.

   Arguments: out=FILE for the report; flash=BEGIN:SIZE, repeatable; watched=N, the number of lines with bytes: watching
   the memory slows QEMU down. The declarations are ours, of version EW_API of the interface: 1 (QEMU 7.2) or 3
   (QEMU 10.0). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thumb.h"

#define PUBLIC __attribute__((visibility("default")))
enum { READS_NO_REGISTERS = 0, READS_AND_WRITES = 3, MOST_MEMORIES = 4 };

typedef uint64_t plugin;
typedef void translated(plugin id, void *block);
typedef void executed(unsigned cpu, void *data);
typedef void accessed(unsigned cpu, uint32_t access, uint64_t address, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin id, translated *call);
void qemu_plugin_register_vcpu_tb_exec_cb(void *block, executed *call, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(void *instruction, accessed *call, int flags, int kind, void *data);
void qemu_plugin_reset(plugin id, void (*done)(plugin id));
size_t qemu_plugin_tb_n_insns(const void *block);
void *qemu_plugin_tb_get_insn(const void *block, size_t at);
const char *qemu_plugin_insn_symbol(const void *instruction);
unsigned qemu_plugin_mem_size_shift(uint32_t access);
bool qemu_plugin_mem_is_store(uint32_t access);
#if EW_API == 1
const void *qemu_plugin_insn_data(const void *instruction);
#else
size_t qemu_plugin_insn_data(const void *instruction, void *bytes, size_t size);
#endif

PUBLIC int qemu_plugin_version = EW_API;

/* A block of instructions that are executed one after the other. */
typedef struct block {
    struct block *next;
    uint64_t times;
    uint32_t classes[EW_CLASSES];
} block;

static block *blocks;
static uint64_t before[EW_CLASSES], flash_bytes, memories[MOST_MEMORIES][2];
static unsigned memory_count, watched;
static bool counting;
static plugin own;
static FILE *report;

static void translate(plugin id, void *made);

static void start_again(plugin id) { qemu_plugin_register_vcpu_tb_trans_cb(id, translate); }

static void mark(unsigned cpu, void *data) {
    uint64_t now[EW_CLASSES] = {0};
    (void)cpu, (void)data;
    for (const block *each = blocks; each; each = each->next)
        for (int at = 0; at < EW_CLASSES; ++at) now[at] += each->times * each->classes[at];
    if (counting) {
        for (int at = 0; at < EW_CLASSES; ++at) fprintf(report, "%llu ", (unsigned long long)(now[at] - before[at]));
        fprintf(report, "%llu\n", (unsigned long long)flash_bytes);
        if (watched && !--watched) qemu_plugin_reset(own, start_again); /* translate again, without the memory */
    }
    memcpy(before, now, sizeof now);
    flash_bytes = 0;
    counting = !counting;
}

static void count_block(unsigned cpu, void *data) {
    (void)cpu;
    ++((block *)data)->times;
}

static void count_access(unsigned cpu, uint32_t access, uint64_t address, void *data) {
    (void)cpu, (void)data;
    if (qemu_plugin_mem_is_store(access)) return;
    for (unsigned at = 0; at < memory_count; ++at)
        if (address - memories[at][0] < memories[at][1]) flash_bytes += 1u << qemu_plugin_mem_size_shift(access);
}

static void translate(plugin id, void *made) {
    const size_t count = qemu_plugin_tb_n_insns(made);
    const char *symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(made, 0)), *name = symbol ? symbol : "";
    (void)id;
    if (!strcmp(name, "ew_mark")) qemu_plugin_register_vcpu_tb_exec_cb(made, mark, READS_NO_REGISTERS, NULL);
    if (!strcmp(name, "ew_mark") || !strcmp(name, "ew_tick")) return; /* ew_tick serves the clock, not the network */
    block *fresh = calloc(1, sizeof *fresh);
    if (!fresh) abort();
    for (size_t at = 0; at < count; ++at) {
        void *instruction = qemu_plugin_tb_get_insn(made, at);
#if EW_API == 1
        const uint8_t *bytes = qemu_plugin_insn_data(instruction);
#else
        uint8_t bytes[4] = {0};
        qemu_plugin_insn_data(instruction, bytes, sizeof bytes);
#endif
        const int class = ew_class_of(bytes);
        ++fresh->classes[class];
        /* Version 1 exchanges reads with writes in some releases: we take both and look at each access. */
        if (watched && class != EW_STORE)
            qemu_plugin_register_vcpu_mem_cb(instruction, count_access, READS_NO_REGISTERS, READS_AND_WRITES, NULL);
    }
    fresh->next = blocks;
    blocks = fresh;
    qemu_plugin_register_vcpu_tb_exec_cb(made, count_block, READS_NO_REGISTERS, fresh);
}

PUBLIC int qemu_plugin_install(plugin id, const void *info, int count, char **arguments) {
    (void)info;
    own = id;
    for (int at = 0; at < count; ++at) {
        char *value = strchr(arguments[at], '=') + 1, *rest;
        if (!strncmp(arguments[at], "out=", 4)) report = fopen(value, "w");
        if (!strncmp(arguments[at], "watched=", 8)) watched = (unsigned)atoi(value);
        if (!strncmp(arguments[at], "flash=", 6) && memory_count < MOST_MEMORIES) {
            memories[memory_count][0] = strtoull(value, &rest, 0);
            memories[memory_count++][1] = strtoull(rest + 1, NULL, 0);
        }
    }
    if (!report) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
