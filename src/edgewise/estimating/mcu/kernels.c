#include "kernels.h"

#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

static int32_t clamp(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Both inputs are shifted left by 20 bits before they are scaled to a common scale. */
void ew_add_s8(const int8_t *a, const ew_scaled *by_a, int32_t step_a, const int8_t *b, const ew_scaled *by_b,
               int32_t step_b, const ew_scaled *out_by, int32_t low, int32_t high, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        int32_t first = arm_nn_requantize((a[i * step_a] + by_a->offset) * (1 << 20), by_a->multiplier, by_a->shift);
        int32_t second = arm_nn_requantize((b[i * step_b] + by_b->offset) * (1 << 20), by_b->multiplier, by_b->shift);
        int32_t sum = arm_nn_requantize(first + second, out_by->multiplier, out_by->shift) + out_by->offset;
        out[i] = (int8_t)clamp(sum, low, high);
    }
}

void ew_mul_s8(const int8_t *a, int32_t offset_a, int32_t step_a, const int8_t *b, int32_t offset_b, int32_t step_b,
               const ew_scaled *out_by, int32_t low, int32_t high, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        int32_t product = (a[i * step_a] + offset_a) * (b[i * step_b] + offset_b);
        int32_t value = arm_nn_requantize(product, out_by->multiplier, out_by->shift) + out_by->offset;
        out[i] = (int8_t)clamp(value, low, high);
    }
}

/* Exponentials and the reciprocal of their sum in fixed point with 5 integer bits; the sum has 12. */
void ew_softmax_s8(const int8_t *in, int32_t rows, int32_t columns, int32_t multiplier, int32_t shift, int32_t diff_min,
                   int8_t *out) {
    const int32_t mask = 1 << shift;
    for (int32_t row = 0; row < rows; ++row, in += columns, out += columns) {
        int32_t highest = in[0], sum = 0;
        for (int32_t i = 1; i < columns; ++i) highest = MAX(highest, in[i]);
        for (int32_t i = 0; i < columns; ++i) {
            int32_t diff = in[i] - highest;
            if (diff >= diff_min) sum += DIV_POW2(EXP_ON_NEG(MUL_SAT(diff * mask, multiplier)), 12);
        }
        const int32_t headroom = sum > 0 ? __builtin_clz((uint32_t)sum) : 32;
        const int32_t scale = ONE_OVER1((sum > 0 ? sum << headroom : 0) - (1 << 31));
        const int32_t bits = 12 - headroom + 23;
        for (int32_t i = 0; i < columns; ++i) {
            int32_t diff = in[i] - highest;
            int32_t value = -128;
            if (diff >= diff_min)
                value = DIV_POW2(MUL_SAT(scale, EXP_ON_NEG(MUL_SAT(diff * mask, multiplier))), bits) - 128;
            out[i] = (int8_t)clamp(value, -128, 127);
        }
    }
}

void ew_requantize_s8(const int8_t *in, int32_t in_offset, const ew_scaled *out_by, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i)
        out[i] = (int8_t)clamp(arm_nn_requantize(in[i] + in_offset, out_by->multiplier, out_by->shift) + out_by->offset,
                               -128, 127);
}

void ew_copy(const int8_t *in, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) out[i] = in[i];
}

