/*
 * The two exports with variable arguments, which stable Rust cannot define. Each formats its
 * message into a buffer on the stack and hands it to Rust; longer messages are cut.
 */

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_MAX 1024

struct fi_provider;

int percale_log_enabled(const struct fi_provider *prov, int level, int subsys);
void percale_log_text(const struct fi_provider *prov, int level, int subsys, const char *func,
		      int line, const char *text);
int percale_param_define_text(const struct fi_provider *prov, const char *name, int type,
			      const char *help);

__asm__(".symver percale_log, fi_log@@FABRIC_1.0");
__asm__(".symver percale_param_define, fi_param_define@@FABRIC_1.0");

static void format(char buf[MESSAGE_MAX], const char *fmt, va_list args)
{
	if (!fmt || vsnprintf(buf, MESSAGE_MAX, fmt, args) < 0)
		buf[0] = '\0';
}

__attribute__((visibility("default"), format(printf, 6, 7)))
void percale_log(const struct fi_provider *prov, int level, int subsys, const char *func, int line,
		 const char *fmt, ...)
{
	char text[MESSAGE_MAX];
	va_list args;

	if (!percale_log_enabled(prov, level, subsys))
		return;
	va_start(args, fmt);
	format(text, fmt, args);
	va_end(args);
	percale_log_text(prov, level, subsys, func, line, text);
}

__attribute__((visibility("default"), format(printf, 4, 5)))
int percale_param_define(const struct fi_provider *prov, const char *name, int type,
			 const char *help_fmt, ...)
{
	char help[MESSAGE_MAX];
	va_list args;

	va_start(args, help_fmt);
	format(help, help_fmt, args);
	va_end(args);
	return percale_param_define_text(prov, name, type, help);
}
