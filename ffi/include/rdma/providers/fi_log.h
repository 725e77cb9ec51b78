/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Logging, for providers.
 */
#ifndef FI_LOG_H
#define FI_LOG_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fi_log_subsys {
	FI_LOG_CORE		= 0,
	FI_LOG_FABRIC		= 1,
	FI_LOG_DOMAIN		= 2,
	FI_LOG_EP_CTRL		= 3,
	FI_LOG_EP_DATA		= 4,
	FI_LOG_AV		= 5,
	FI_LOG_CQ		= 6,
	FI_LOG_EQ		= 7,
	FI_LOG_MR		= 8,
	FI_LOG_CNTR		= 9,
};

/* Each level includes the ones before it */
enum fi_log_level {
	FI_LOG_WARN		= 0,
	FI_LOG_TRACE		= 1,
	FI_LOG_INFO		= 2,
	FI_LOG_DEBUG		= 3,
};

/* The compiler checks arguments from the first-th against the format string-th. */
#define FI_FORMAT_PRINTF(string, first) \
	__attribute__((__format__(__printf__, (string), (first))))

/* Whether a message would be written; prov is never NULL. */
int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys);

/* The same, and long enough after the last one; *showtime starts at 0. */
int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level,
		 enum fi_log_subsys subsys, uint64_t *showtime);

void fi_log(const struct fi_provider *prov, enum fi_log_level level,
	    enum fi_log_subsys subsys, const char *func, int line,
	    const char *fmt, ...) FI_FORMAT_PRINTF(6, 7);

/* All macros take a format and its arguments last, and leave errno alone. */
#define FI_LOG(prov, level, subsystem, ...)					\
	do {									\
		if (fi_log_enabled(prov, level, subsystem)) {			\
			int saved_errno_ = errno;				\
			fi_log(prov, level, subsystem, __func__, __LINE__,	\
			       __VA_ARGS__);					\
			errno = saved_errno_;					\
		}								\
	} while (0)

/* For messages that would otherwise flood the log */
#define FI_LOG_SPARSE(prov, level, subsystem, ...)				\
	do {									\
		static uint64_t showtime_;					\
		if (fi_log_ready(prov, level, subsystem, &showtime_)) {		\
			int saved_errno_ = errno;				\
			fi_log(prov, level, subsystem, __func__, __LINE__,	\
			       __VA_ARGS__);					\
			errno = saved_errno_;					\
		}								\
	} while (0)

#define FI_WARN(prov, subsystem, ...) \
	FI_LOG(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)

#define FI_WARN_SPARSE(prov, subsystem, ...) \
	FI_LOG_SPARSE(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)

#define FI_WARN_ONCE(prov, subsystem, ...)					\
	do {									\
		static int warned_;						\
		if (!warned_ && fi_log_enabled(prov, FI_LOG_WARN, subsystem)) {	\
			int saved_errno_ = errno;				\
			fi_log(prov, FI_LOG_WARN, subsystem, __func__,		\
			       __LINE__, __VA_ARGS__);				\
			errno = saved_errno_;					\
			warned_ = 1;						\
		}								\
	} while (0)

#define FI_TRACE(prov, subsystem, ...) \
	FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)

#define FI_INFO(prov, subsystem, ...) \
	FI_LOG(prov, FI_LOG_INFO, subsystem, __VA_ARGS__)

/* Compiled in by debug builds of the provider only */
#if defined(ENABLE_DEBUG) && ENABLE_DEBUG
#define FI_DBG(prov, subsystem, ...) \
	FI_LOG(prov, FI_LOG_DEBUG, subsystem, __VA_ARGS__)
#define FI_DBG_TRACE(prov, subsystem, ...) \
	FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#else
#define FI_DBG(prov, subsystem, ...)		do { } while (0)
#define FI_DBG_TRACE(prov, subsystem, ...)	do { } while (0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* FI_LOG_H */
