/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a provider built as a library of its own gives and gets.
 */
#ifndef FI_PROV_H
#define FI_PROV_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Such a library is named NAME-FI_LIB_SUFFIX and exports the one function FI_EXT_INI. */
#define FI_LIB_EXTENSION	"fi"
#define FI_LIB_SUFFIX		FI_LIB_EXTENSION ".so"

#define FI_EXT_INI \
	__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)

struct fi_provider {
	uint32_t		version;	/* of the provider */
	uint32_t		fi_version;	/* newest interface it knows */
	struct fi_context	context;	/* the library's */
	const char		*name;
	int	(*getinfo)(uint32_t version, const char *node, const char *service,
			   uint64_t flags, const struct fi_info *hints,
			   struct fi_info **info);
	int	(*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
			  void *context);
	void	(*cleanup)(void);
};

/*
 * Configuration variables.  param_name becomes FI_<PROVIDER>_<PARAM_NAME>; help_string
 * is a printf format.
 */
int fi_param_define(const struct fi_provider *provider, const char *param_name,
		    enum fi_param_type type, const char *help_string, ...)
	__attribute__((__format__(__printf__, 4, 5)));

/* 0 and the value, -FI_ENODATA when not set, -FI_ENOENT when not defined. */
int fi_param_get(struct fi_provider *provider, const char *param_name, void *value);

/* *value belongs to the library. */
static inline int
fi_param_get_str(struct fi_provider *provider, const char *param_name, char **value)
{
	return fi_param_get(provider, param_name, value);
}

static inline int
fi_param_get_int(struct fi_provider *provider, const char *param_name, int *value)
{
	return fi_param_get(provider, param_name, value);
}

static inline int
fi_param_get_bool(struct fi_provider *provider, const char *param_name, int *value)
{
	return fi_param_get(provider, param_name, value);
}

static inline int
fi_param_get_size_t(struct fi_provider *provider, const char *param_name, size_t *value)
{
	return fi_param_get(provider, param_name, value);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROV_H */
