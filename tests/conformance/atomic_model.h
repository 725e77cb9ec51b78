/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What atomic operations do, in plain C. */
#ifndef CONFORMANCE_ATOMIC_MODEL_H
#define CONFORMANCE_ATOMIC_MODEL_H

#include "frame.h"

/* Elements of an operation in the tables below. */
#define ELEMENTS	3

enum family { BASE, FETCH, COMPARE, FAMILIES };

struct model {
	enum fi_datatype	type;
	const char		*name;
	size_t			size;
	const void		*old, *operand, *compare;	/* ELEMENTS each */
	/* The new value of a target; 0 if the operation is none of this type and family. */
	int			(*apply)(enum family family, enum fi_op op, void *target,
					 const void *operand, const void *compare);
	int			(*equal)(const void *a, const void *b);
};

/* A model of every datatype that C has. */
extern const struct model models[];
extern const size_t model_count;

#endif
