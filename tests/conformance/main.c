/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Conformance: what the manual pages promise, asked of one provider and one endpoint type.
 *
 * Every case runs in a process group of its own, with a deadline, as two processes and as two
 * threads, and once for each value of what it varies.
 */
#include "frame.h"

#include <fnmatch.h>
#include <getopt.h>

#include "groups.h"
#include "instance.h"
#include "settings.h"
#include "variants.h"

struct settings settings = { .type = FI_EP_RDM, .deadline = 60 };

static const struct conformance_group *const groups[] = {
#define LIST(name)	&name##_group,
	GROUPS(LIST)
#undef LIST
};

#define GROUP_COUNT	(sizeof(groups) / sizeof(groups[0]))

static struct {
	int		processes, threads;
	int		complete;	/* what is not offered is a failure */
	int		offered;	/* it is left out */
	int		plain;		/* nothing is varied */
	int		verbose;
	char		**patterns;
} choice = { .threads = 1, .processes = 1 };

static struct { unsigned passed, failed, skipped, left_out; } total;

static int chosen(const char *name)
{
	if (!*choice.patterns)
		return 1;
	for (char **pattern = choice.patterns; *pattern; pattern++)
		if (!fnmatch(*pattern, name, 0))
			return 1;
	return 0;
}

static void run_instance(const char *name, const struct conformance_case *what,
			 const struct variant *variant, int threads)
{
	static const char *const words[] = {
		[PASSED] = "ok", [FAILED] = "FAILED", [NOT_OFFERED] = "not offered",
	};
	const struct instance instance = { what, variant, threads };
	enum outcome outcome = run(&instance);

	if (outcome == NOT_OFFERED && choice.offered) {
		total.left_out++;
		return;
	}
	total.passed += outcome == PASSED;
	total.skipped += outcome == NOT_OFFERED && !choice.complete;
	total.failed += outcome == FAILED || (outcome == NOT_OFFERED && choice.complete);
	if (outcome == PASSED && !choice.verbose)
		return;
	printf("  %s %s (%s%s%s)\n", words[outcome], name, threads ? "threads" : "processes",
	       variant->axis ? ", " : "", variant->name);
	fflush(stdout);
	if (outcome == FAILED)
		show_output();
}

static void run_case(const char *group, const struct conformance_case *what)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/%s", group, what->name);
	if (!chosen(name) || !(what->types & 1u << settings.type))
		return;
	for (size_t i = 0; i < variant_count; i++) {
		if (variants[i].axis && (choice.plain || !(what->vary & variants[i].axis)))
			continue;
		if (choice.processes)
			run_instance(name, what, &variants[i], 0);
		if (choice.threads)
			run_instance(name, what, &variants[i], 1);
	}
}

static void run_all(void)
{
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		const unsigned before = total.passed, failed = total.failed;

		for (size_t k = 0; k < groups[i]->count; k++)
			run_case(groups[i]->name, &groups[i]->cases[k]);
		if (total.passed != before || total.failed != failed)
			printf("%-12s %4u passed, %u failed\n", groups[i]->name,
			       total.passed - before, total.failed - failed);
		fflush(stdout);
	}
}

/* The table of cases and rules, for the book. */
static void print_table(void)
{
	static const struct { unsigned axis; const char *name; } axes[] = {
		{ VARY_AV, "address vector" }, { VARY_FORMAT, "queue format" },
		{ VARY_MR, "registration" }, { VARY_THREADING, "threading" },
		{ VARY_PROGRESS, "progress" }, { VARY_WAIT, "wait object" },
		{ VARY_API, "interface version" },
	};

	printf("| case | manual page | rule | varied |\n|---|---|---|---|\n");
	for (size_t i = 0; i < GROUP_COUNT; i++)
		for (size_t k = 0; k < groups[i]->count; k++) {
			const struct conformance_case *what = &groups[i]->cases[k];
			const char *comma = "";

			printf("| `%s/%s` | %s | %s | ", groups[i]->name, what->name, what->page,
			       what->rule);
			for (size_t a = 0; a < sizeof(axes) / sizeof(axes[0]); a++)
				if (what->vary & axes[a].axis) {
					printf("%s%s", comma, axes[a].name);
					comma = ", ";
				}
			printf(" |\n");
		}
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: conformance -p PROVIDER [options] [GROUP/CASE ...]\n"
		"\n"
		"  -p, --provider NAME      as for FI_PROVIDER and fi_info\n"
		"  -e, --endpoint TYPE      rdm (the default), msg or dgram\n"
		"  -n, --node ADDRESS[,ADDRESS]  own address, or that of either side, for providers that listen at one\n"
		"  -i, --in KIND            sides are processes or threads; both by default\n"
		"  -c, --complete           a case that the provider does not offer is a failure\n"
		"      --plain              each case once, with nothing varied\n"
		"  -o, --offered            a case that the provider does not offer is left out\n"
		"      --brief              long loops are short, and five times as long may be waited for\n"
		"  -s, --slow               for instrumented runs: patience, and descriptors are not counted\n"
		"  -v, --verbose            one line for each run\n"
		"  -t, --table              the cases and their rules, as a table\n"
		"\n"
		"Cases may be patterns, such as 'tagged/*'. The last line has the totals.\n");
}

static int refuse(const char *option, const char *value, const char *accepted)
{
	fprintf(stderr, "conformance: %s: '%s' is not one of %s\n", option, value, accepted);
	return 2;
}

static int endpoint_type(const char *name)
{
	static const struct { const char *name; enum fi_ep_type type; } types[] = {
		{ "rdm", FI_EP_RDM }, { "msg", FI_EP_MSG }, { "dgram", FI_EP_DGRAM },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(name, types[i].name)) {
			settings.type = types[i].type;
			return 0;
		}
	return refuse("--endpoint", name, "rdm, msg, dgram");
}

/* One address for both sides, or one for each. */
static void choose_nodes(char *list)
{
	settings.nodes[0] = strtok(list, ",");
	settings.nodes[1] = strtok(NULL, ",");
	if (!settings.nodes[1])
		settings.nodes[1] = settings.nodes[0];
}

static int side_kind(const char *name)
{
	choice.processes = !strcmp(name, "processes") || !strcmp(name, "both");
	choice.threads = !strcmp(name, "threads") || !strcmp(name, "both");
	return choice.processes || choice.threads ?
	       0 : refuse("--in", name, "processes, threads, both");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "provider", required_argument, NULL, 'p' },
		{ "endpoint", required_argument, NULL, 'e' },
		{ "node", required_argument, NULL, 'n' },
		{ "in", required_argument, NULL, 'i' },
		{ "complete", no_argument, NULL, 'c' },
		{ "plain", no_argument, NULL, 1 },
		{ "brief", no_argument, NULL, 2 },
		{ "offered", no_argument, NULL, 'o' },
		{ "slow", no_argument, NULL, 's' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "table", no_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = 0;

	while ((option = getopt_long(argc, argv, "p:e:n:i:cosvth", options, NULL)) != -1 && !status) {
		switch (option) {
		case 'p': settings.provider = optarg; break;
		case 'e': status = endpoint_type(optarg); break;
		case 'n': choose_nodes(optarg); break;
		case 'i': status = side_kind(optarg); break;
		case 'c': choice.complete = 1; break;
		case 1: choice.plain = 1; break;
		case 2: settings.deadline *= 5; settings.brief = 1; break;
		case 'o': choice.offered = 1; break;
		case 's': settings.deadline *= 10; settings.instrumented = 1; break;
		case 'v': choice.verbose = 1; break;
		case 't': print_table(); return 0;
		case 'h': usage(stdout); return 0;
		default: status = 2;
		}
	}
	if (status)
		return status;
	if (!settings.provider) {
		usage(stderr);
		return 2;
	}
	choice.patterns = argv + optind;
	if (!find_demands())
		return 1;
	run_all();
	if (!total.passed && !total.failed)
		fprintf(stderr, "conformance: no case ran\n");
	if (total.left_out)
		printf("left out, since it is not offered: %u\n", total.left_out);
	printf("%u passed, %u failed, %u skipped\n", total.passed, total.failed, total.skipped);
	return total.failed || !total.passed;
}
