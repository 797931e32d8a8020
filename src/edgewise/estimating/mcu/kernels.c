#include "kernels.h"

#include <string.h>

#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

static int32_t clamp(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* An input is shifted left by 20 bits before it is scaled to the common scale. */
static int32_t common(int32_t value, const ew_scaled *by) {
    return arm_nn_requantize((value + by->offset) * (1 << 20), by->multiplier, by->shift);
}

static int8_t result(int32_t value, const ew_pair *by) {
    return (int8_t)clamp(arm_nn_requantize(value, by->out.multiplier, by->out.shift) + by->out.offset, by->low, by->high);
}

#define ROW(name, expression)                                                                                          \
    void name(const int8_t *a, int32_t step_a, const int8_t *b, int32_t step_b, const ew_pair *by, int8_t *out,        \
              int32_t count) {                                                                                         \
        for (int32_t i = 0; i < count; ++i, a += step_a, b += step_b) out[i] = expression;                             \
    }

ROW(ew_add_s8, result(common(*a, &by->a) + common(*b, &by->b), by))
ROW(ew_sub_s8, result(common(*a, &by->a) - common(*b, &by->b), by))
ROW(ew_mul_s8, result((*a + by->a.offset) * (*b + by->b.offset), by))
/* The greater and the lesser number are copied: their scales are taken to be one. */
ROW(ew_maximum_s8, *a > *b ? *a : *b)
ROW(ew_minimum_s8, *a < *b ? *a : *b)

/* A negative value is multiplied by `b`; both results have the scale of the output. */
static int32_t prelu(int32_t value, int32_t slope, const ew_pair *by) {
    return value >= 0 ? arm_nn_requantize(value, by->a.multiplier, by->a.shift)
                      : arm_nn_requantize(value * slope, by->b.multiplier, by->b.shift);
}

ROW(ew_prelu_s8, (int8_t)clamp(prelu(*a + by->a.offset, *b + by->b.offset, by) + by->out.offset, by->low, by->high))

/* The inputs are shifted left by 7 bits, so that the square of their difference has 32. */
static int32_t squared_difference(int32_t a, int32_t b, const ew_pair *by) {
    const int32_t rest = arm_nn_requantize((a + by->a.offset) * 128, by->a.multiplier, by->a.shift) -
                         arm_nn_requantize((b + by->b.offset) * 128, by->b.multiplier, by->b.shift);
    return rest * rest;
}

ROW(ew_squared_difference_s8, result(squared_difference(*a, *b, by), by))

void ew_broadcast(ew_row *row, const int8_t *a, const int8_t *b, const ew_pair *by, int8_t *out, int32_t depth,
                  const int32_t *loops) {
    if (depth == 1) {
        row(a, loops[1], b, loops[2], by, out, loops[0]);
        return;
    }
    for (int32_t i = 0; i < loops[0]; ++i)
        ew_broadcast(row, a + i * loops[1], b + i * loops[2], by, out + i * loops[3], depth - 1, loops + 4);
}

void ew_move(const int8_t *in, int8_t *out, int32_t depth, const int32_t *loops) {
    const int32_t count = loops[0], in_step = loops[1], out_step = loops[2];
    if (depth > 1) {
        for (int32_t i = 0; i < count; ++i) ew_move(in + i * in_step, out + i * out_step, depth - 1, loops + 3);
    } else if (in_step == 1 && out_step == 1) {
        memcpy(out, in, count);
    } else {
        for (int32_t i = 0; i < count; ++i) out[i * out_step] = in[i * in_step];
    }
}

static int32_t total(const int8_t *in, int32_t depth, const int32_t *loops) {
    int32_t sum = 0;
    for (int32_t i = 0; i < loops[0]; ++i)
        sum += depth == 1 ? in[i * loops[1]] : total(in + i * loops[1], depth - 1, loops + 2);
    return sum;
}

/* Sums, less the zero points in them, times a factor; that of a mean includes the division by its count. */
void ew_sum_s8(const int8_t *in, int32_t inner_depth, const int32_t *inner, int32_t subtract, const ew_scaled *out_by,
               int8_t *out, int32_t depth, const int32_t *loops) {
    for (int32_t i = 0; i < loops[0]; ++i, in += loops[1], out += loops[2]) {
        if (depth > 1) {
            ew_sum_s8(in, inner_depth, inner, subtract, out_by, out, depth - 1, loops + 3);
        } else {
            int32_t sum = total(in, inner_depth, inner) - subtract;
            *out = (int8_t)clamp(arm_nn_requantize(sum, out_by->multiplier, out_by->shift) + out_by->offset, -128, 127);
        }
    }
}

static int32_t extreme(const int8_t *in, int32_t depth, const int32_t *loops, int32_t sign) {
    int32_t found = -sign * 128 - (sign < 0);
    for (int32_t i = 0; i < loops[0]; ++i, in += loops[1]) {
        const int32_t value = depth == 1 ? *in : extreme(in, depth - 1, loops + 2, sign);
        if (sign * value > sign * found) found = value;
    }
    return found;
}

void ew_extreme_s8(const int8_t *in, int32_t inner_depth, const int32_t *inner, int32_t sign, int8_t *out,
                   int32_t depth, const int32_t *loops) {
    for (int32_t i = 0; i < loops[0]; ++i, in += loops[1], out += loops[2]) {
        if (depth > 1) ew_extreme_s8(in, inner_depth, inner, sign, out, depth - 1, loops + 3);
        else *out = (int8_t)extreme(in, inner_depth, inner, sign);
    }
}

void ew_arg_s8(const int8_t *in, int32_t outer, int32_t count, int32_t inner, int32_t sign, int32_t *out) {
    for (int32_t i = 0; i < outer; ++i, in += count * inner)
        for (int32_t j = 0; j < inner; ++j) {
            int32_t best = 0;
            for (int32_t k = 1; k < count; ++k)
                if (sign * in[k * inner + j] > sign * in[best * inner + j]) best = k;
            *out++ = best;
        }
}

static void multiply_matrices(const int8_t *a, const int8_t *b, const ew_product *by, int8_t *out) {
    for (int32_t row = 0; row < by->sizes[0]; ++row)
        for (int32_t column = 0; column < by->sizes[2]; ++column) {
            const int8_t *left = a + row * by->steps[0], *right = b + column * by->steps[3];
            int32_t sum = 0;
            for (int32_t i = 0; i < by->sizes[1]; ++i, left += by->steps[1], right += by->steps[2])
                sum += (*left + by->a_offset) * (*right + by->b_offset);
            sum = arm_nn_requantize(sum, by->out.multiplier, by->out.shift) + by->out.offset;
            *out++ = (int8_t)clamp(sum, -128, 127);
        }
}

void ew_matmul_s8(const int8_t *a, const int8_t *b, const ew_product *by, int8_t *out, int32_t depth,
                  const int32_t *loops) {
    for (int32_t i = 0; i < loops[0]; ++i, a += loops[1], b += loops[2], out += loops[3]) {
        if (depth > 1) ew_matmul_s8(a, b, by, out, depth - 1, loops + 4);
        else multiply_matrices(a, b, by, out);
    }
}

/* Where the output at `at` meets the tap `tap` of the kernel, along one dimension: a place of the input, or -1. */
static int32_t source_of(int32_t at, int32_t tap, int32_t stride, int32_t size) {
    const int32_t place = at - tap;
    return place >= 0 && place % stride == 0 && place / stride < size ? place / stride : -1;
}

/* Each output gathers what the convolution that this one transposes would have scattered; 32-bit sums. */
void ew_transpose_conv_s8(const int8_t *in, const int8_t *weights, const ew_transposed *by, int8_t *out) {
    const int32_t channels = by->in[2];
    for (int32_t y = 0; y < by->out[0]; ++y)
        for (int32_t x = 0; x < by->out[1]; ++x)
            for (int32_t c = 0; c < by->out[2]; ++c) {
                int32_t sum = by->bias[c];
                for (int32_t h = 0; h < by->kernel[0]; ++h) {
                    const int32_t row = source_of(y + by->before[0], h, by->stride[0], by->in[0]);
                    for (int32_t w = 0; row >= 0 && w < by->kernel[1]; ++w) {
                        const int32_t column = source_of(x + by->before[1], w, by->stride[1], by->in[1]);
                        if (column < 0) continue;
                        const int8_t *from = in + (row * by->in[1] + column) * channels;
                        const int8_t *weight = weights + ((c * by->kernel[0] + h) * by->kernel[1] + w) * channels;
                        for (int32_t i = 0; i < channels; ++i) sum += (from[i] + by->in_offset) * weight[i];
                    }
                }
                sum = arm_nn_requantize(sum, by->multipliers[c], by->shifts[c]) + by->out_offset;
                *out++ = (int8_t)clamp(sum, by->low, by->high);
            }
}

static int32_t at_width(const void *values, int32_t width, int32_t place) {
    return width == 1 ? ((const int8_t *)values)[place] : ((const int16_t *)values)[place];
}

void ew_svdf_s8(const int8_t *in, const int8_t *features, const int8_t *times, const ew_filter *by, void *state,
                int8_t *out) {
    const int32_t limit = by->width == 1 ? 127 : 32767, kept = by->memory, width = by->width;
    const int32_t filters = by->units * by->rank;
    for (int32_t batch = 0; batch < by->batches; ++batch, in += by->inputs)
        for (int32_t unit = 0; unit < by->units; ++unit) {
            int32_t sum = by->bias[unit];
            for (int32_t filter = unit * by->rank; filter < (unit + 1) * by->rank; ++filter) {
                int8_t *history = (int8_t *)state + (batch * filters + filter) * kept * width;
                int32_t value = 0;
                for (int32_t i = 0; i < by->inputs; ++i)
                    value += features[filter * by->inputs + i] * (in[i] - by->in_zero);
                value = clamp(arm_nn_requantize(value, by->into.multiplier, by->into.shift), -limit - 1, limit);
                memmove(history, history + width, (kept - 1) * width);
                if (width == 1) history[kept - 1] = (int8_t)value;
                else ((int16_t *)history)[kept - 1] = (int16_t)value;
                for (int32_t i = 0; i < kept; ++i)
                    sum += at_width(times, width, filter * kept + i) * at_width(history, width, i);
            }
            *out++ = (int8_t)clamp(arm_nn_requantize(sum, by->by.multiplier, by->by.shift) + by->by.offset, -128, 127);
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

static int32_t shift_left(int32_t value, int32_t bits) {
    const int64_t wide = (int64_t)value << bits;
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* 1 / sqrt(value) as a multiplier and a shift: five of Newton's steps in fixed point with 3 integer bits, from 1. */
static int32_t inverse_square_root(int32_t value, int32_t *shift) {
    *shift = 0;
    if (value <= 1) return INT32_MAX;
    int32_t right = 11;
    for (; value >= 1 << 29; value /= 4) ++right;
    const int32_t pairs = (__builtin_clz((uint32_t)value) - 1) / 2 - 1;
    right -= pairs;
    const int32_t half = DIV_POW2((value << 2 * pairs) >> 1, 1);
    int32_t x = 1 << 28;
    for (int32_t i = 0; i < 5; ++i) {
        const int32_t cube = shift_left(MUL_SAT(MUL_SAT(x, x), x), 6);
        x = shift_left(MUL_SAT((1 << 28) + (1 << 27), x) - MUL_SAT(half, cube), 3);
    }
    x = MUL_SAT(x, 1518500250); /* sqrt(1 / 2) */
    if (right < 0) return x << -right;
    *shift = -right;
    return x;
}

/* The output has 7 bits after the point. */
void ew_l2_normalization_s8(const int8_t *in, int32_t rows, int32_t columns, int32_t zero_point, int8_t *out) {
    for (int32_t row = 0; row < rows; ++row, in += columns) {
        int32_t sum = 0, shift;
        for (int32_t i = 0; i < columns; ++i) sum += (in[i] - zero_point) * (in[i] - zero_point);
        const int32_t factor = inverse_square_root(sum, &shift);
        for (int32_t i = 0; i < columns; ++i)
            *out++ = (int8_t)clamp(arm_nn_requantize(in[i] - zero_point, factor, shift + 7), -128, 127);
    }
}

/* The root has 20 bits after the point. */
void ew_rsqrt_s8(const int8_t *in, int32_t zero_point, const ew_scaled *by, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        int32_t shift;
        const int32_t factor = inverse_square_root(in[i] - zero_point, &shift);
        const int32_t root = arm_nn_requantize(1, factor, shift + 20);
        const int32_t value = arm_nn_requantize(root, by->multiplier, by->shift - 20) + by->offset;
        out[i] = (int8_t)(in[i] == zero_point ? 127 : clamp(value, -128, 127));
    }
}

void ew_resize_bilinear_s8(const int8_t *in, int32_t batches, int32_t height, int32_t width, int32_t channels,
                           int32_t out_height, int32_t out_width, const int32_t *ys, const int32_t *xs, int8_t *out) {
    for (int32_t batch = 0; batch < batches; ++batch, in += height * width * channels)
        for (const int32_t *y = ys; y < ys + 3 * out_height; y += 3)
            for (const int32_t *x = xs; x < xs + 3 * out_width; x += 3)
                for (int32_t c = 0; c < channels; ++c) {
                    const int8_t *upper = in + y[0] * width * channels + c, *lower = in + y[1] * width * channels + c;
                    const int32_t left = x[0] * channels, right = x[1] * channels;
                    const int32_t sum = (1024 - y[2]) * ((1024 - x[2]) * upper[left] + x[2] * upper[right]) +
                                        y[2] * ((1024 - x[2]) * lower[left] + x[2] * lower[right]);
                    *out++ = (int8_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
                }
}

/* A function of one number, computed beforehand for all 256. */
void ew_lookup_s8(const int8_t *in, const int8_t *table, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) out[i] = table[in[i] + 128];
}

/* Rounds half away from zero. */
void ew_quantize_f32(const float *in, float scale, int32_t zero_point, int8_t *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        const float value = in[i] / scale;
        int32_t whole = (int32_t)value;
        const float rest = value - (float)whole;
        whole += rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0;
        out[i] = (int8_t)clamp(whole + zero_point, -128, 127);
    }
}

void ew_dequantize_f32(const int8_t *in, float scale, int32_t zero_point, float *out, int32_t count) {
    for (int32_t i = 0; i < count; ++i) out[i] = scale * (float)(in[i] - zero_point);
}

void ew_copy(const int8_t *in, int8_t *out, int32_t count) { memcpy(out, in, count); }

void ew_fill(int8_t *out, int32_t value, int32_t count) { memset(out, value, count); }
