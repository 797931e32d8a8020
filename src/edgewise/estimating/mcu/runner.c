/* Speaks the protocol of MLPerf Tiny's runner over a serial port: commands end with '%', answers with "m-ready".
   The model is network.c; runner.h says how its input arrives and how its outputs are printed. */
#include "runner.h"

#include "hal.h"
#include "network.h"

#define MOST_CHARACTERS 80
static char command[MOST_CHARACTERS + 1];
static union {
    uint8_t bytes[EW_BUFFER_BYTES];
    float reals[EW_BUFFER_BYTES / 4 + 1];
} buffer;
static int32_t expected, loaded;

static void print(const char *text) {
    while (*text) hal_put(*text++);
}

static void print_digits(uint64_t value, int32_t decimals) {
    char text[32];
    int32_t at = sizeof text - 1, count = 0;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
        if (++count == decimals) text[--at] = '.';
    } while (value || count <= decimals);
    print(text + at);
}

static void print_number(const char *before, uint32_t value, const char *after) {
    print(before);
    print_digits(value, 0);
    print(after);
}

static void print_real(double value) {
    double scale = 1;
    for (int32_t i = 0; i < EW_DECIMALS; ++i) scale *= 10;
    value *= scale;
    if (value != value || value > 1e18 || value < -1e18) {
        print(value != value ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (value < 0) print("-");
    print_digits((uint64_t)((value < 0 ? -value : value) + 0.5), EW_DECIMALS);
}

static void print_time(void) { print_number("m-lap-us-", hal_microseconds(), "\r\n"); }

static int is(const char *text, const char *word) {
    while (*word && *text == *word) ++text, ++word;
    return !*word && (!*text || *text == ' ');
}

static const char *next_word(const char *text) {
    while (*text && *text != ' ') ++text;
    while (*text == ' ') ++text;
    return text;
}

/* -1 where there is no number of at most nine digits. */
static int32_t number_at(const char *text) {
    int32_t value = 0, digits = 0;
    for (; *text >= '0' && *text <= '9'; ++text, ++digits) {
        if (digits == 9) return -1;
        value = 10 * value + *text - '0';
    }
    return digits && (!*text || *text == ' ') ? value : -1;
}

static int32_t digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Inference may use the memory of its inputs for other tensors, so they are written before each one. */
static void write_inputs(void) {
    const uint8_t *from = buffer.bytes;
    for (int32_t at = 0; at < EW_MODEL_INPUTS; ++at) {
#if EW_ENCODING == EW_FLOAT32
        const float *real = (const float *)from;
        for (int32_t i = 0; i < ew_inputs[at].count; ++i) {
            float value = real[i] / EW_INPUT_SCALE;
            int32_t near = (int32_t)(value < -1000 ? -1000 : value > 1000 ? 1000 : value + (value < 0 ? -0.5f : 0.5f));
            near += EW_INPUT_ZERO_POINT;
            ew_inputs[at].data[i] = (int8_t)(near < -128 ? -128 : near > 127 ? 127 : near);
        }
        from += 4 * ew_inputs[at].count;
#else
        for (int32_t i = 0; i < ew_inputs[at].count; ++i)
            ew_inputs[at].data[i] = (int8_t)(EW_ENCODING == EW_UINT8 ? from[i] ^ 0x80 : from[i]);
        from += ew_inputs[at].count;
#endif
    }
}

static void infer(void) {
    write_inputs();
    for (int32_t at = 0; at < EW_OPERATORS; ++at) ew_execute(at);
}

static double output_at(int32_t output, int32_t i) {
    const ew_scale *by = &ew_output_scales[output];
    const int8_t *data = ew_outputs[output].data;
    if (by->type == EW_FLOAT32) return ((const float *)data)[i];
    return by->scale * ((by->type == EW_UINT8 ? (uint8_t)data[i] : data[i]) - by->zero_point);
}

static void print_results(void) {
    print("m-results-[");
#if EW_SCORE
    double sum = 0;
    for (int32_t i = 0; i < ew_outputs[0].count; ++i) {
        double error = output_at(0, i) - buffer.reals[i];
        sum += error * error;
    }
    print_real(sum / ew_outputs[0].count);
#else
    for (int32_t output = 0; output < EW_OUTPUTS; ++output)
        for (int32_t i = 0; i < ew_outputs[output].count / (ew_output_scales[output].type == EW_FLOAT32 ? 4 : 1); ++i) {
            if (output || i) print(",");
            print_real(output_at(output, i));
        }
#endif
    print("]\r\n");
}

static void do_infer(const char *words) {
    const int32_t count = *words ? number_at(words) : 1;
    words = next_word(words);
    const int32_t warmup = *words ? number_at(words) : 10;
    if (count <= 0) {
        print("e-[Inference iterations must be >0]\r\n");
        return;
    }
    if (warmup < 0) {
        print("e-[Inference warmup must be >=0]\r\n");
        return;
    }
    ew_reset();
    print_number("m-warmup-start-", (uint32_t)warmup, "\r\n");
    for (int32_t i = 0; i < warmup; ++i) infer();
    print("m-warmup-done\r\n");
    print_number("m-infer-start-", (uint32_t)count, "\r\n");
    print_time();
    for (int32_t i = 0; i < count; ++i) infer();
    print_time();
    print("m-infer-done\r\n");
    if (ew_failed)
        print("e-[An operator failed]\r\n");
    else
        print_results();
}

static void do_load(const char *word) {
    const int32_t bytes = number_at(word);
    if (bytes != EW_BUFFER_BYTES) {
        print_number("e-[The input of this model has ", EW_BUFFER_BYTES, " bytes]\r\n");
        return;
    }
    expected = bytes;
    loaded = 0;
    print_number("m-[Expecting ", (uint32_t)bytes, " bytes]\r\n");
}

static void do_bytes(const char *word) {
    if (!expected) {
        print("e-[Bytes need 'db load' before them]\r\n");
        return;
    }
    for (; word[0] && word[0] != ' '; word += 2) {
        const int32_t high = digit_of(word[0]), low = word[1] ? digit_of(word[1]) : -1;
        if (high < 0 || low < 0) {
            print("e-[Bytes are pairs of hexadecimal digits]\r\n");
            return;
        }
        if (loaded < expected) buffer.bytes[loaded++] = (uint8_t)(16 * high + low);
        if (loaded == expected) {
            print("m-load-done\r\n");
            return;
        }
    }
}

static void answer(void) {
    const char *words = next_word(command);
    if (is(command, "name")) {
        print("m-name-dut-[" EW_NAME "]\r\n");
    } else if (is(command, "profile")) {
        print("m-profile-[" EW_PROFILE "]\r\nm-model-[" EW_MODEL "]\r\n");
    } else if (is(command, "timestamp")) {
        print_time();
    } else if (is(command, "help")) {
        print("name, profile, timestamp, db load N, db HEX, infer N [W=10], results\r\n");
    } else if (is(command, "db") && is(words, "load")) {
        do_load(next_word(words));
    } else if (is(command, "db") && *words) {
        do_bytes(words);
    } else if (is(command, "infer")) {
        do_infer(words);
    } else if (is(command, "results")) {
        print_results();
    } else {
        print("e-[Unknown command: ");
        print(command);
        print("]\r\n");
    }
    print("m-ready\r\n");
}

void ew_runner(void) {
    hal_start();
    print("m-init-done\r\nm-ready\r\n");
    for (int32_t length = 0;;) {
        const char character = hal_get();
        if (character == '%' && length > MOST_CHARACTERS) {
            print("e-[Commands have at most 80 characters]\r\nm-ready\r\n");
            length = 0;
        } else if (character == '%') {
            command[length] = 0;
            if (length) answer();
            length = 0;
        } else if (character != '\r' && character != '\n') {
            if (length < MOST_CHARACTERS) command[length] = character;
            length += length <= MOST_CHARACTERS;
        }
    }
}
