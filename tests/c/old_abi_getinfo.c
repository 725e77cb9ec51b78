/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Behaves like programs compiled with the headers of every release since the first.
 *
 *	old_abi_getinfo LIBRARY [--allow-missing]
 *
 * Such a program reaches the library through the symbol version of its time and passes
 * structures of the size of its time.  Here each of those that the library reads ends at
 * a guard page, and the error entry that the library fills is followed by bytes that must
 * not change.  The program may also ask for a newer interface than its own: it does when
 * it passes what fi_version() returns.
 *
 * One line per case; the exit code is 1 if any failed.  Versions that the library lacks
 * are failures too, unless --allow-missing is given.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "guard.h"

#define PROVIDER	"shm"
#define CANARY		0xa5
#define CANARY_SIZE	64
#define MEM_MODES	0x3fc	/* every FI_MR_* that is not a deprecated name */

/* What a program linked to one symbol version knows. */
struct node {
	const char	*version;
	uint32_t	newest;		/* interface of the last release with this version */
	size_t		info, tx, rx, ep, domain, fabric;
	size_t		err_entry;
	size_t		mr_attr;
};

static const struct node nodes[] = {
	{ "FABRIC_1.0",  FI_VERSION(1, 4),  112, 72, 64, 80,  120, 32, 72, 48 },
	{ "FABRIC_1.1",  FI_VERSION(1, 6),  112, 72, 64, 96,  184, 32, 80, 64 },
	{ "FABRIC_1.2",  FI_VERSION(1, 8),  120, 72, 64, 96,  184, 32, 80, 64 },
	{ "FABRIC_1.3",  FI_VERSION(1, 19), 120, 80, 64, 96,  192, 32, 80, 88 },
	{ "FABRIC_1.7",  FI_VERSION(1, 22), 120, 80, 64, 96,  200, 32, 88, 96 },
	{ "FABRIC_1.8",  FI_VERSION(2, 4),  120, 80, 64, 96,  208, 32, 88, 112 },
	{ "FABRIC_1.9",  FI_VERSION(2, 6),  120, 80, 64, 96,  224, 32, 88, 112 },
	{ "FABRIC_1.10", FI_VERSION(2, 7),  120, 80, 64, 104, 232, 32, 88, 112 },
};

/* Entry points as one program sees them. */
struct library {
	void		*handle;
	uint32_t	(*version)(void);
	int		(*getinfo)(uint32_t version, const char *node, const char *service,
				   uint64_t flags, const struct fi_info *hints,
				   struct fi_info **info);
	void		(*freeinfo)(struct fi_info *info);
	struct fi_info	*(*dupinfo)(const struct fi_info *info);
	int		(*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
				  void *context);
};

/* Exit codes of a case, none of which a crashing library would choose */
enum { OK = 100, FAILED = 101, MISSING = 102 };

/* What the case is about to do, in memory that outlives its process */
static const char **step;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
	va_list args;

	printf("FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(FAILED);
}

static void expect_success(const char *what, long result)
{
	if (result < 0)
		fail("%s returned %ld", what, result);
}

static int find(struct library *library, void *function, const char *name, const char *version)
{
	void *symbol = dlvsym(library->handle, name, version);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

/* Whether the library has the version. */
static int open_library(struct library *library, const char *path, const struct node *node)
{
	/* The second version of fi_fabric came with the second one of fi_getinfo. */
	const char *fabric = strcmp(node->version, "FABRIC_1.0") ? "FABRIC_1.1" : "FABRIC_1.0";

	library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library->handle)
		fail("%s", dlerror());

	return find(library, &library->version, "fi_version", "FABRIC_1.0") &&
	       find(library, &library->getinfo, "fi_getinfo", node->version) &&
	       find(library, &library->freeinfo, "fi_freeinfo", node->version) &&
	       find(library, &library->dupinfo, "fi_dupinfo", node->version) &&
	       find(library, &library->fabric, "fi_fabric", fabric);
}

/* An info of the program's size, every part of it against a guard page. */
static struct fi_info *guarded_info(const struct node *node)
{
	struct fi_info *info = (struct fi_info *) guarded(node->info);

	info->tx_attr = (struct fi_tx_attr *) guarded(node->tx);
	info->rx_attr = (struct fi_rx_attr *) guarded(node->rx);
	info->ep_attr = (struct fi_ep_attr *) guarded(node->ep);
	info->domain_attr = (struct fi_domain_attr *) guarded(node->domain);
	info->fabric_attr = (struct fi_fabric_attr *) guarded(node->fabric);
	info->fabric_attr->prov_name = guarded_text(PROVIDER);
	return info;
}

static struct fi_info *get_info(const struct library *library, const struct node *node,
				uint32_t api)
{
	struct fi_info *hints = guarded_info(node), *info = NULL;

	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	/* Programs from before 1.5 know no mode bits, whatever interface they ask for. */
	if (node->newest >= FI_VERSION(1, 5))
		hints->domain_attr->mr_mode = MEM_MODES;

	expect_success("fi_getinfo", library->getinfo(api, NULL, NULL, 0, hints, &info));
	if (!info || !info->fabric_attr || !info->fabric_attr->prov_name ||
	    !info->domain_attr || !info->ep_attr || !info->tx_attr || !info->rx_attr)
		fail("fi_getinfo left something out");
	if (strcmp(info->fabric_attr->prov_name, PROVIDER))
		fail("fi_getinfo found %s", info->fabric_attr->prov_name);
	if (info->fabric_attr->api_version != api)
		fail("fi_getinfo answered for api 0x%x", info->fabric_attr->api_version);
	return info;
}

static void check_copy(const struct fi_info *copy, const struct fi_info *info)
{
	if (!copy || copy == info || copy->tx_attr == info->tx_attr)
		fail("fi_dupinfo did not copy");
	if (copy->caps != info->caps || copy->src_addrlen != info->src_addrlen ||
	    copy->ep_attr->type != info->ep_attr->type ||
	    copy->domain_attr->max_ep_srx_ctx != info->domain_attr->max_ep_srx_ctx ||
	    strcmp(copy->fabric_attr->prov_name, info->fabric_attr->prov_name))
		fail("fi_dupinfo changed what it copied");
	if (info->src_addrlen && memcmp(copy->src_addr, info->src_addr, info->src_addrlen))
		fail("fi_dupinfo changed the source address");
}

static void check_dupinfo(const struct library *library, const struct node *node,
			  const struct fi_info *found)
{
	static const char address[] = "fi_shm://0123";
	struct fi_info *info = guarded_info(node), *copy;

	copy = library->dupinfo(found);
	check_copy(copy, found);
	library->freeinfo(copy);

	/* One of the program's own making, with the last field it knows in use */
	info->caps = FI_TAGGED;
	info->addr_format = FI_ADDR_STR;
	info->src_addrlen = sizeof(address);
	info->src_addr = guarded_text(address);
	info->ep_attr->type = FI_EP_RDM;
	info->domain_attr->name = guarded_text("domain");
	info->domain_attr->max_ep_srx_ctx = 5;
	copy = library->dupinfo(info);
	check_copy(copy, info);
	if (copy->ep_attr->auth_key || copy->domain_attr->auth_key)
		fail("fi_dupinfo made up a key");
	library->freeinfo(copy);

	copy = library->dupinfo(NULL);
	if (!copy || !copy->tx_attr || !copy->rx_attr || !copy->ep_attr ||
	    !copy->domain_attr || !copy->fabric_attr || copy->caps || copy->next)
		fail("fi_dupinfo(NULL) is not an empty info");
	library->freeinfo(copy);
}

/* Before 1.5 the last four bytes of the attribute were padding. */
static void check_padding(const struct library *library, const struct node *node,
			  const struct fi_info *info)
{
	struct fi_fabric_attr *attr = (struct fi_fabric_attr *) guarded(node->fabric);
	const uint32_t garbage = 0xdeadbeef;
	struct fid_fabric *fabric = NULL;
	int ret;

	*attr = *info->fabric_attr;
	memcpy((char *) attr + 28, &garbage, sizeof(garbage));
	expect_success("fi_fabric with garbage padding", library->fabric(attr, &fabric, NULL));
	if (fabric->api_version != FI_VERSION(1, 0))
		fail("fi_fabric took padding for a version: 0x%x", fabric->api_version);
	expect_success("closing the fabric", fabric->fid.ops->close(&fabric->fid));

	ret = library->fabric(NULL, &fabric, NULL);
	if (ret != -FI_EINVAL)
		fail("fi_fabric of NULL returned %d", ret);
}

/* Everything a receive needs, opened through the operation tables. */
struct objects {
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_cq		*cq;
	struct fid_av		*av;
	struct fid_ep		*ep;
};

static void open_objects(const struct library *library, struct fi_info *info,
			 struct objects *o)
{
	/* Later releases may append to these. */
	union { struct fi_cq_attr attr; char room[128]; } cq;
	union { struct fi_av_attr attr; char room[128]; } av;

	memset(&cq, 0, sizeof(cq));
	cq.attr.format = FI_CQ_FORMAT_TAGGED;
	memset(&av, 0, sizeof(av));
	av.attr.type = FI_AV_TABLE;

	expect_success("fi_fabric", library->fabric(info->fabric_attr, &o->fabric, NULL));
	expect_success("domain", o->fabric->ops->domain(o->fabric, info, &o->domain, NULL));
	expect_success("cq_open", o->domain->ops->cq_open(o->domain, &cq.attr, &o->cq, NULL));
	expect_success("av_open", o->domain->ops->av_open(o->domain, &av.attr, &o->av, NULL));
	expect_success("endpoint", o->domain->ops->endpoint(o->domain, info, &o->ep, NULL));
	expect_success("bind", o->ep->fid.ops->bind(&o->ep->fid, &o->cq->fid,
						    FI_TRANSMIT | FI_RECV));
	expect_success("bind", o->ep->fid.ops->bind(&o->ep->fid, &o->av->fid, 0));
	expect_success("enable", o->ep->fid.ops->control(&o->ep->fid, FI_ENABLE, NULL));
}

static void close_objects(struct objects *o)
{
	expect_success("closing the endpoint", o->ep->fid.ops->close(&o->ep->fid));
	expect_success("closing the av", o->av->fid.ops->close(&o->av->fid));
	expect_success("closing the cq", o->cq->fid.ops->close(&o->cq->fid));
	expect_success("closing the domain", o->domain->fid.ops->close(&o->domain->fid));
	expect_success("closing the fabric", o->fabric->fid.ops->close(&o->fabric->fid));
}

/*
 * Cancels a receive and reads the error entry into memory of the program's size.  The
 * inline fi_cq_readerr of this program's headers would itself write past an older entry.
 */
static void check_err_entry(const struct node *node, struct objects *o)
{
	static uint64_t context[8];
	static char buffer[64];
	union { struct fi_cq_err_entry entry; unsigned char bytes[256]; } err;
	struct fi_cq_tagged_entry done;
	ssize_t ret;
	int tries;
	size_t i;

	expect_success("trecv", o->ep->tagged->recv(o->ep, buffer, sizeof(buffer), NULL,
						    FI_ADDR_UNSPEC, 1, 0, context));
	expect_success("cancel", o->ep->ops->cancel(&o->ep->fid, context));
	for (tries = 0; tries < 2000; tries++) {
		ret = o->cq->ops->read(o->cq, &done, 1);
		if (ret != -FI_EAGAIN)
			break;
		usleep(1000);
	}
	if (ret != -FI_EAVAIL)
		fail("reading the cq returned %ld", (long) ret);

	memset(&err, 0, sizeof(err));
	memset(err.bytes + node->err_entry, CANARY, CANARY_SIZE);
	ret = o->cq->ops->readerr(o->cq, &err.entry, 0);
	if (ret != 1)
		fail("readerr returned %ld", (long) ret);
	if (err.entry.err != FI_ECANCELED || err.entry.op_context != context)
		fail("error entry has err %d, context %p", err.entry.err, err.entry.op_context);
	for (i = 0; i < CANARY_SIZE; i++)
		if (err.bytes[node->err_entry + i] != CANARY)
			fail("readerr wrote past the %zu bytes of the entry, at %zu",
			     node->err_entry, node->err_entry + i);
}

/* Registers memory with an attribute of the program's size, which the library reads. */
static void check_mr_attr(const struct node *node, struct objects *o)
{
	static char buffer[64];
	struct fi_mr_attr *attr = (struct fi_mr_attr *) guarded(node->mr_attr);
	struct iovec iov;
	struct fid_mr *mr = NULL;

	iov.iov_base = buffer;
	iov.iov_len = sizeof(buffer);
	attr->mr_iov = &iov;
	attr->iov_count = 1;
	attr->access = FI_SEND | FI_RECV;
	attr->requested_key = 7;
	expect_success("regattr", o->domain->mr->regattr(&o->domain->fid, attr, 0, &mr));
	expect_success("closing the region", mr->fid.ops->close(&mr->fid));
}

/* Runs in a process of its own. */
static int run(const char *path, const struct node *node, int ask_library)
{
	struct library library;
	struct objects objects;
	struct fi_info *info;
	uint32_t api;

	if (!open_library(&library, path, node))
		return MISSING;

	api = library.version();
	if (!ask_library && node->newest < api)
		api = node->newest;

	*step = "fi_getinfo";
	info = get_info(&library, node, api);
	*step = "fi_dupinfo";
	check_dupinfo(&library, node, info);
	*step = "fi_fabric with garbage padding";
	if (!strcmp(node->version, "FABRIC_1.0"))
		check_padding(&library, node, info);
	*step = "opening objects";
	open_objects(&library, info, &objects);
	*step = "fi_cq_readerr";
	check_err_entry(node, &objects);
	*step = "fi_mr_regattr";
	check_mr_attr(node, &objects);
	*step = "closing objects";
	close_objects(&objects);
	*step = "fi_freeinfo";
	library.freeinfo(info);
	return OK;
}

static int run_case(const char *path, const struct node *node, int ask_library)
{
	int status;
	pid_t child;

	printf("%s, asking for %s: ", node->version,
	       ask_library ? "what fi_version() says" : "its own interface");
	fflush(stdout);
	*step = "loading the library";
	child = fork();
	if (child == 0) {
		alarm(60);
		status = run(path, node, ask_library);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("child process");
		return FAILED;
	}
	if (WIFSIGNALED(status)) {
		printf("FAILED: signal %d in %s\n", WTERMSIG(status), *step);
		return FAILED;
	}
	switch (WEXITSTATUS(status)) {
	case OK:
		printf("ok\n");
		break;
	case MISSING:
		printf("no such version in the library\n");
		break;
	case FAILED:
		break;
	default:
		printf("FAILED: exit code %d in %s\n", WEXITSTATUS(status), *step);
		return FAILED;
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const int allow_missing = argc == 3 && !strcmp(argv[2], "--allow-missing");
	int failed = 0;
	size_t i;
	int ask_library;

	if (argc != 2 && !allow_missing) {
		fprintf(stderr, "usage: %s LIBRARY [--allow-missing]\n", argv[0]);
		return 2;
	}

	step = (const char **) mmap(NULL, sizeof(*step), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (step == (const char **) MAP_FAILED) {
		perror("shared memory");
		return 2;
	}

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		for (ask_library = 0; ask_library < 2; ask_library++) {
			int result = run_case(argv[1], &nodes[i], ask_library);

			failed |= result != OK && !(result == MISSING && allow_missing);
		}
	}
	return failed;
}
