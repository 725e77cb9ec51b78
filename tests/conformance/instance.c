/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An instance is a process (the leader of a group) with two sides: children or threads of it. The
 * leader ends when both have ended, or one has failed; the runner above it watches the time.
 */
#include "instance.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "settings.h"

/* Where the children's standard output and error go. */
static int output[2] = { -1, -1 };

int find_demands(void)
{
	struct side side = { .type = settings.type };
	struct fi_info *hints, *info = NULL;
	int ret;

	settings.mr_mode = ~3;		/* all but the two old modes, which stand alone */
	hints = wished_hints(&side);
	ret = ask(0, hints, &info);
	fi_freeinfo(hints);
	if (ret) {
		fprintf(stderr, "conformance: no endpoints of this type from %s: %s\n",
			settings.provider, fi_strerror(-ret));
		return 0;
	}
	settings.mr_mode = info->domain_attr->mr_mode;
	fi_freeinfo(info);
	return 1;
}

static struct wish wish_of(const struct instance *instance)
{
	struct wish wish = {
		.caps = instance->what->caps,
		.av_type = FI_AV_TABLE,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait = FI_WAIT_NONE,
	};

	if (instance->what->wish)
		instance->what->wish(&wish);
	apply_variant(instance->variant, &wish);
	return wish;
}

static int offered(const struct instance *instance)
{
	struct side side = { .type = settings.type, .wish = wish_of(instance) };
	struct fi_info *hints = wished_hints(&side), *info = NULL;
	int ret = ask(side.wish.api, hints, &info);

	fi_freeinfo(hints);
	if (!ret)
		fi_freeinfo(info);
	else if (ret != -FI_ENODATA)
		FAIL("fi_getinfo returned %d (%s)", ret, fi_strerror(-ret));
	return !ret;
}

struct start {
	const struct instance	*instance;
	int			role, channel;
};

static void *run_side(void *argument)
{
	const struct start *start = argument;
	struct side side = {
		.role = start->role,
		.channel = start->channel,
		.type = settings.type,
		.wish = wish_of(start->instance),
	};
	const int closed = start->instance->what->closed;

	side_title = start->role ? "side 1" : "side 0";
	side_role = start->role;
	if (!closed)
		side_open(&side);
	start->instance->what->run(&side);
	if (!closed) {
		/* An endpoint that is gone answers nobody. */
		barrier(&side);
		side_close(&side);
	}
	return NULL;
}

static void show_descriptors(void)
{
	char path[64], target[256];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len > 0)
			dprintf(STDERR_FILENO, "    descriptor %d: %.*s\n", fd, (int) len, target);
	}
}

static void check_descriptors(int before)
{
	int after = open_fds();

	/* A sanitizer that names its findings keeps pipes to who names them. */
	if (after == before || settings.instrumented)
		return;
	show_descriptors();
	FAIL("%d descriptors are open, %d were before", after, before);
}

/* Both sides as threads of this process. */
static int run_threads(struct start starts[2])
{
	const int before = open_fds();
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, run_side, &starts[i]))
			FAIL("pthread_create failed");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	check_descriptors(before);
	return 0;
}

static pid_t fork_side(struct start starts[2], int role)
{
	pid_t pid = fork();

	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(starts[!role].channel);
	{
		const int before = open_fds();

		run_side(&starts[role]);
		check_descriptors(before);
	}
	exit(0);
}

/* Waits for a child, at most for some seconds if they are not zero; its status, or -1. */
static int await_child(pid_t pid, double seconds)
{
	const struct timespec moment = { .tv_nsec = 5000000 };
	const double late = now() + seconds;
	int status;

	while (waitpid(pid, &status, seconds ? WNOHANG : 0) != pid) {
		if (now() > late)
			return -1;
		nanosleep(&moment, NULL);
	}
	return status;
}

static int left_out(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_OFFERED;
}

static int good_end(int role, int status)
{
	if (WIFSIGNALED(status))
		dprintf(STDERR_FILENO, "    side %d: ended by signal %d (%s)\n", role,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Both sides as children of this process. */
static int run_processes(struct start starts[2])
{
	pid_t pids[2] = { fork_side(starts, 0), fork_side(starts, 1) };
	siginfo_t first;
	int role, status;

	close(starts[0].channel);
	close(starts[1].channel);
	if (waitid(P_ALL, 0, &first, WEXITED | WNOWAIT))
		FAIL("waitid: %s", strerror(errno));
	role = first.si_pid == pids[1];
	status = await_child(pids[role], 0);
	if (left_out(status)) {
		kill(pids[!role], SIGKILL);
		return EXIT_NOT_OFFERED;
	}
	if (good_end(role, status)) {
		status = await_child(pids[!role], 0);
		return left_out(status) ? EXIT_NOT_OFFERED : !good_end(!role, status);
	}
	/* The other may have something to say to that. */
	status = await_child(pids[!role], 0.5);
	if (status < 0)
		kill(pids[!role], SIGKILL);
	else
		good_end(!role, status);
	return 1;
}

static int lead(const struct instance *instance)
{
	struct start starts[2];
	int ends[2];

	if (!offered(instance))
		return EXIT_NOT_OFFERED;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		FAIL("socketpair: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
		starts[i] = (struct start) { instance, i, ends[i] };
	return instance->threads ? run_threads(starts) : run_processes(starts);
}

/* Files in memory: no pipe that fills, no name that stays. */
static void renew_output(void)
{
	for (int i = 0; i < 2; i++) {
		if (output[i] >= 0)
			close(output[i]);
		output[i] = memfd_create("conformance", MFD_CLOEXEC);
		if (output[i] < 0)
			FAIL("memfd_create: %s", strerror(errno));
	}
}

/* Waits for the child's end, at most until the deadline. */
static int await(pid_t pid, int *status)
{
	const struct timespec moment = { .tv_sec = 1 };
	const double late = now() + settings.deadline;
	sigset_t ended;

	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	for (;;) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return 1;
		if (now() > late)
			return 0;
		sigtimedwait(&ended, NULL, &moment);
	}
}

enum outcome run(const struct instance *instance)
{
	int status = 0, in_time;
	sigset_t ended, before;
	pid_t pid;

	renew_output();
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ended, &before);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (!pid) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(output[0], STDOUT_FILENO);
		dup2(output[1], STDERR_FILENO);
		exit(lead(instance));
	}
	setpgid(pid, pid);
	in_time = await(pid, &status);
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* The sides too, whatever became of their leader. */
	kill(-pid, SIGKILL);
	if (!in_time) {
		waitpid(pid, &status, 0);
		dprintf(output[1], "    no end after %d s\n", settings.deadline);
		return FAILED;
	}
	if (left_out(status))
		return NOT_OFFERED;
	if (WIFSIGNALED(status))
		dprintf(output[1], "    ended by signal %d (%s)\n", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	if (lseek(output[0], 0, SEEK_END) != 0) {
		dprintf(output[1], "    something was written to standard output\n");
		return FAILED;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? PASSED : FAILED;
}

void show_output(void)
{
	char bytes[4096];
	ssize_t got;
	off_t at = 0;

	while ((got = pread(output[1], bytes, sizeof(bytes), at)) > 0) {
		fwrite(bytes, 1, (size_t) got, stdout);
		at += got;
	}
	fflush(stdout);
}
