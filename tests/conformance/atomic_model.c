/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "atomic_model.h"

#include <complex.h>

/* a is the target, b the operand, c the value to compare with. */
#define CASE(op, expression)	case op: *target = (expression); return 1
#define BASE_OR_FETCH		(family != COMPARE)

#define COMMON(t) \
	if (family == FETCH && op == FI_ATOMIC_READ) \
		return 1; \
	if (BASE_OR_FETCH) \
		switch (op) { \
		CASE(FI_SUM, (t) (a + b)); \
		CASE(FI_PROD, (t) (a * b)); \
		CASE(FI_LOR, (t) (a != 0 || b != 0)); \
		CASE(FI_LAND, (t) (a != 0 && b != 0)); \
		CASE(FI_LXOR, (t) ((a != 0) != (b != 0))); \
		CASE(FI_ATOMIC_WRITE, b); \
		default: break; \
		} \
	else \
		switch (op) { \
		CASE(FI_CSWAP, c == a ? b : a); \
		CASE(FI_CSWAP_NE, c != a ? b : a); \
		default: break; \
		}

#define ORDERED(t) \
	if (BASE_OR_FETCH) \
		switch (op) { \
		CASE(FI_MIN, b < a ? b : a); \
		CASE(FI_MAX, b > a ? b : a); \
		default: break; \
		} \
	else \
		switch (op) { \
		CASE(FI_CSWAP_LE, c <= a ? b : a); \
		CASE(FI_CSWAP_LT, c < a ? b : a); \
		CASE(FI_CSWAP_GE, c >= a ? b : a); \
		CASE(FI_CSWAP_GT, c > a ? b : a); \
		default: break; \
		}

#define BITWISE(t) \
	if (BASE_OR_FETCH) \
		switch (op) { \
		CASE(FI_BOR, (t) (a | b)); \
		CASE(FI_BAND, (t) (a & b)); \
		CASE(FI_BXOR, (t) (a ^ b)); \
		default: break; \
		} \
	else \
		switch (op) { \
		CASE(FI_MSWAP, (t) ((b & c) | (a & ~c))); \
		default: break; \
		}

#define NONE(t)

#define MODEL(t, name, first, second) \
	static int apply_##name(enum family family, enum fi_op op, void *target_, \
				const void *operand_, const void *compare_) \
	{ \
		t *target = target_; \
		const t a = *target, b = *(const t *) operand_, c = *(const t *) compare_; \
		COMMON(t) \
		first(t) \
		second(t) \
		return 0; \
	} \
	static int equal_##name(const void *a, const void *b) \
	{ \
		return *(const t *) a == *(const t *) b; \
	}

/* Element 0 equals its comparison value, 1 is below and 2 above it. */
#define VALUES(t, name) \
	static const t old_##name[ELEMENTS] = { 7, 0, 100 }, operand_##name[ELEMENTS] = { 3, 5, 2 }, \
		compare_##name[ELEMENTS] = { 7, 1, 5 };

#define SIGNED_VALUES(t, name) \
	static const t old_##name[ELEMENTS] = { 7, -3, 100 }, \
		operand_##name[ELEMENTS] = { -3, 5, 100 }, \
		compare_##name[ELEMENTS] = { 7, 1, -5 };

#define SIGNED(t, name)		SIGNED_VALUES(t, name) MODEL(t, name, ORDERED, BITWISE)
#define UNSIGNED(t, name)	VALUES(t, name) MODEL(t, name, ORDERED, BITWISE)
#define FLOATING(t, name)	SIGNED_VALUES(t, name) MODEL(t, name, ORDERED, NONE)
#define COMPLEX(t, name) \
	static const t old_##name[ELEMENTS] = { 7 + 2 * I, 0, I }, \
		operand_##name[ELEMENTS] = { 3 - I, 5, 2 * I }, \
		compare_##name[ELEMENTS] = { 7 + 2 * I, 1, 5 }; \
	MODEL(t, name, NONE, NONE)

SIGNED(int8_t, int8)
UNSIGNED(uint8_t, uint8)
SIGNED(int16_t, int16)
UNSIGNED(uint16_t, uint16)
SIGNED(int32_t, int32)
UNSIGNED(uint32_t, uint32)
SIGNED(int64_t, int64)
UNSIGNED(uint64_t, uint64)
FLOATING(float, float)
FLOATING(double, double)
FLOATING(long double, long_double)
COMPLEX(float complex, float_complex)
COMPLEX(double complex, double_complex)
COMPLEX(long double complex, long_double_complex)
#ifdef __SIZEOF_INT128__
typedef __int128 int128;
typedef unsigned __int128 uint128;
SIGNED(int128, int128)
UNSIGNED(uint128, uint128)
#endif

#define ENTRY(t, name, datatype) \
	{ datatype, #datatype, sizeof(t), old_##name, operand_##name, compare_##name, apply_##name, \
	  equal_##name }

const struct model models[] = {
	ENTRY(int8_t, int8, FI_INT8),
	ENTRY(uint8_t, uint8, FI_UINT8),
	ENTRY(int16_t, int16, FI_INT16),
	ENTRY(uint16_t, uint16, FI_UINT16),
	ENTRY(int32_t, int32, FI_INT32),
	ENTRY(uint32_t, uint32, FI_UINT32),
	ENTRY(int64_t, int64, FI_INT64),
	ENTRY(uint64_t, uint64, FI_UINT64),
	ENTRY(float, float, FI_FLOAT),
	ENTRY(double, double, FI_DOUBLE),
	ENTRY(float complex, float_complex, FI_FLOAT_COMPLEX),
	ENTRY(double complex, double_complex, FI_DOUBLE_COMPLEX),
	ENTRY(long double, long_double, FI_LONG_DOUBLE),
	ENTRY(long double complex, long_double_complex, FI_LONG_DOUBLE_COMPLEX),
#ifdef __SIZEOF_INT128__
	ENTRY(int128, int128, FI_INT128),
	ENTRY(uint128, uint128, FI_UINT128),
#endif
};

const size_t model_count = sizeof(models) / sizeof(models[0]);
