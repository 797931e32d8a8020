/* int8 operators that CMSIS-NN's subset lacks, in portable C, with tflite-micro's arithmetic. */
#ifndef EDGEWISE_KERNELS_H
#define EDGEWISE_KERNELS_H
#include <stdint.h>

typedef struct { int32_t offset, multiplier, shift; } ew_scaled;

void ew_add_s8(const int8_t *a, const ew_scaled *by_a, int32_t step_a, const int8_t *b, const ew_scaled *by_b,
               int32_t step_b, const ew_scaled *out_by, int32_t low, int32_t high, int8_t *out, int32_t count);
void ew_mul_s8(const int8_t *a, int32_t offset_a, int32_t step_a, const int8_t *b, int32_t offset_b, int32_t step_b,
               const ew_scaled *out_by, int32_t low, int32_t high, int8_t *out, int32_t count);
void ew_softmax_s8(const int8_t *in, int32_t rows, int32_t columns, int32_t multiplier, int32_t shift, int32_t diff_min,
                   int8_t *out);
void ew_requantize_s8(const int8_t *in, int32_t in_offset, const ew_scaled *out_by, int8_t *out, int32_t count);
void ew_copy(const int8_t *in, int8_t *out, int32_t count);
#endif
