/* The class of a Thumb instruction, from its encoding (Armv8-M Architecture Reference Manual, C2). */
#include <stdint.h>

/* The order of CLASSES in costs.py. */
enum { EW_LOAD, EW_STORE, EW_MULTIPLY, EW_DIVIDE, EW_BRANCH, EW_FLOAT, EW_VECTOR, EW_OTHER, EW_CLASSES };

static int ew_class_of_narrow(uint32_t word) {
    switch (word >> 12) {
    case 4:
        if (word & 0x0800) return EW_LOAD;                                         /* LDR (literal) */
        if ((word & 0xFFC0) == 0x4340) return EW_MULTIPLY;                         /* MULS */
        if ((word & 0xFF00) == 0x4700) return EW_BRANCH;                           /* BX, BLX */
        return (word & 0xFD87) == 0x4487 ? EW_BRANCH : EW_OTHER;                   /* ADD and MOV to pc */
    case 5: return (word >> 9 & 7) < 3 ? EW_STORE : EW_LOAD;
    case 6: case 7: case 8: case 9: case 12: return word & 0x0800 ? EW_LOAD : EW_STORE;
    case 11:
        if ((word & 0x0500) == 0x0100) return EW_BRANCH;                           /* CBZ, CBNZ */
        if ((word & 0x0600) == 0x0400) return word & 0x0800 ? EW_LOAD : EW_STORE;  /* POP, PUSH */
        return EW_OTHER;
    case 13: return (word & 0x0E00) == 0x0E00 ? EW_OTHER : EW_BRANCH;              /* UDF and SVC are no branches */
    case 14: return EW_BRANCH;
    default: return EW_OTHER;
    }
}

/* FPU and Helium; `second` has the number of the coprocessor in bits 8 to 11. */
static int ew_class_of_coprocessor(uint32_t first, uint32_t second) {
    const uint32_t number = second >> 8 & 15, group = first >> 8;
    if (group == 0xEF || group == 0xFF || number >= 14) return EW_VECTOR;
    if (number < 9 || number > 11) return number == 8 ? EW_VECTOR : EW_OTHER;
    if ((group & 0xFE) == 0xEC) {
        if ((first & 0xFFE0) == 0xEC40) return EW_FLOAT; /* VMOV of two registers */
        return first & 0x10 ? EW_LOAD : EW_STORE;
    }
    if (number == 11 && (second & 0x1F) == 0x10) { /* VDUP, and VMOV of 8 or 16 bits */
        const uint32_t part = (first >> 3 & 12) | (second >> 5 & 3);
        if ((first & 0x90) == 0x80 || part & 9) return EW_VECTOR;
    }
    return EW_FLOAT;
}

static int ew_class_of_wide(uint32_t first, uint32_t second) {
    if ((first & 0xEC00) == 0xEC00) return ew_class_of_coprocessor(first, second);
    if ((first & 0xFE00) == 0xE800) {
        if ((first & 0xFFF0) == 0xE8D0 && (second & 0xFFE0) == 0xF000) return EW_BRANCH; /* TBB, TBH */
        if (first == 0xE97F || first == 0xE89F) return EW_OTHER;                         /* SG, CLRM */
        if ((first & 0xFFF0) == 0xE840 && second >> 12 == 15) return EW_OTHER;           /* TT */
        return first & 0x10 ? EW_LOAD : EW_STORE;
    }
    if ((first & 0xF800) == 0xF000 && second & 0x8000) {
        if ((first & 0xFFC0) == 0xF000 && second == 0xE801) return EW_VECTOR; /* VCTP */
        return (second & 0x5000) == 0 && (first & 0x0380) == 0x0380 ? EW_OTHER : EW_BRANCH;
    }
    switch (first >> 8) {
    case 0xF8: case 0xF9:
        if (!(first & 0x10)) return EW_STORE;
        return second >> 12 == 15 && !(first & 0x40) ? EW_OTHER : EW_LOAD; /* PLD and PLI have no register */
    case 0xFB: return (first & 0xD0) == 0x90 && (second & 0xF0) == 0xF0 ? EW_DIVIDE : EW_MULTIPLY;
    default: return EW_OTHER;
    }
}

/* `bytes` are the two or four bytes of the instruction: the first halfword tells how many. */
static int ew_class_of(const uint8_t *bytes) {
    const uint32_t first = bytes[0] | (uint32_t)bytes[1] << 8;
    return first < 0xE800 ? ew_class_of_narrow(first) : ew_class_of_wide(first, bytes[2] | (uint32_t)bytes[3] << 8);
}
