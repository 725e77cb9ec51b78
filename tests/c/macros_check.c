/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses every function-like macro of the headers as applications and providers do. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* As a debug build of a provider, to get FI_DBG too */
#define ENABLE_DEBUG 1

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#if FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION) < FI_VERSION(1, 17)
#error "versions do not compare in the preprocessor"
#endif

static int failures;

#define EXPECT(condition)							\
	do {									\
		if (!(condition)) {						\
			printf("line %d: %s\n", __LINE__, #condition);		\
			failures++;						\
		}								\
	} while (0)

/* What the logging macros arrive at. */
static enum fi_log_level last_level;
static int messages, enabled = 1;
static char text[64];

#ifdef __cplusplus
extern "C" {
#endif

int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys)
{
	return prov && subsys == FI_LOG_CORE && enabled && level <= FI_LOG_DEBUG;
}

int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level,
		 enum fi_log_subsys subsys, uint64_t *showtime)
{
	return fi_log_enabled(prov, level, subsys) && !(*showtime)++;
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level,
	    enum fi_log_subsys subsys, const char *func, int line,
	    const char *fmt, ...)
{
	va_list args;

	(void) subsys;
	last_level = level;
	messages += prov && func && line > 0;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	errno = EDOM;
}

static struct fi_provider provider;

FI_EXT_INI
{
	return &provider;
}

#ifdef __cplusplus
}
#endif

static int format(char *buf, size_t len, const char *fmt, ...) FI_FORMAT_PRINTF(3, 4);

static int format(char *buf, size_t len, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = vsnprintf(buf, len, fmt, args);
	va_end(args);
	return ret;
}

static void check_versions(void)
{
	const uint32_t version = FI_VERSION(1, 20);

	EXPECT(version == 0x10014);
	EXPECT(FI_MAJOR(version) == 1);
	EXPECT(FI_MINOR(version) == 20);
	EXPECT(FI_VERSION_GE(version, FI_VERSION(1, 9)));
	EXPECT(FI_VERSION_GE(version, FI_VERSION(1, 20)));
	EXPECT(!FI_VERSION_GE(version, FI_VERSION(2, 0)));
	EXPECT(FI_VERSION_LT(version, FI_VERSION(2, 0)));
	EXPECT(!FI_VERSION_LT(version, FI_VERSION(1, 20)));
}

static int close_fid(struct fid *fid)
{
	return fid ? 0 : -FI_EINVAL;
}

static void check_slots(void)
{
	struct fi_ops table, *ops = &table;

	memset(ops, 0, sizeof(*ops));
	ops->size = offsetof(struct fi_ops, bind);
	ops->close = close_fid;
	EXPECT(FI_CHECK_OP(ops, struct fi_ops, close));
	EXPECT(!FI_CHECK_OP(ops, struct fi_ops, bind));
	ops->size = sizeof(*ops);
	EXPECT(!FI_CHECK_OP(ops, struct fi_ops, bind));
}

static void check_logging(void)
{
	const struct fi_provider *prov = fi_prov_ini();
	char buf[16];
	int i;

	errno = EAGAIN;
	FI_LOG(prov, FI_LOG_INFO, FI_LOG_CORE, "%d items", 3);
	EXPECT(messages == 1 && last_level == FI_LOG_INFO && !strcmp(text, "3 items"));
	EXPECT(errno == EAGAIN);

	FI_WARN(prov, FI_LOG_CORE, "plain");
	EXPECT(messages == 2 && last_level == FI_LOG_WARN && !strcmp(text, "plain"));
	FI_TRACE(prov, FI_LOG_CORE, "%s", "trace");
	EXPECT(messages == 3 && last_level == FI_LOG_TRACE);
	FI_INFO(prov, FI_LOG_CORE, "%s", "info");
	EXPECT(messages == 4 && last_level == FI_LOG_INFO);
	FI_DBG(prov, FI_LOG_CORE, "%s", "debug");
	EXPECT(messages == 5 && last_level == FI_LOG_DEBUG);
	FI_DBG_TRACE(prov, FI_LOG_CORE, "%s", "debug trace");
	EXPECT(messages == 6 && last_level == FI_LOG_TRACE);

	for (i = 0; i < 3; i++)
		FI_WARN_ONCE(prov, FI_LOG_CORE, "once");
	EXPECT(messages == 7);
	for (i = 0; i < 3; i++)
		FI_WARN_SPARSE(prov, FI_LOG_CORE, "sparse");
	EXPECT(messages == 8 && last_level == FI_LOG_WARN);
	for (i = 0; i < 3; i++)
		FI_LOG_SPARSE(prov, FI_LOG_INFO, FI_LOG_CORE, "%d", i);
	EXPECT(messages == 9 && last_level == FI_LOG_INFO && !strcmp(text, "0"));

	enabled = 0;
	FI_WARN(prov, FI_LOG_CORE, "masked");
	EXPECT(messages == 9);

	EXPECT(format(buf, sizeof(buf), "%d-%s", 4, "x") == 3);
}

int main(void)
{
	check_versions();
	check_slots();
	check_logging();
	EXPECT(strcmp(FI_LIB_SUFFIX, "fi.so") == 0);
	return failures != 0;
}
