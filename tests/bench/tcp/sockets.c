/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The limit: what non-blocking sockets do where nobody looks at what they carry.
 *
 *	sockets server|client NODE PORT latency|rate|calls|bandwidth COUNT
 *
 * A window leaves in as few system calls as the socket takes. With "calls" it is the window of "rate"
 * with a call for each message, which is as long as the provider's with its header. The first leaves at
 * once, and the last with all others: the limit for whoever must not keep a message until its next call.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "measure.h"

/* Of the header in front of a message of the provider. */
#define HEADER		16

static int fd, one_by_one;
static size_t to_come;

static void expect(int count, size_t size)
{
	size += one_by_one ? HEADER : 0;
	to_come = (size_t) count * size;
}

static void send_all(int count, size_t size)
{
	const char *at = outgoing;
	size_t left;

	size += one_by_one ? HEADER : 0;
	left = (size_t) count * size;
	while (left) {
		size_t part = one_by_one ? size : left;
		int held = part < left && at != outgoing ? MSG_MORE : 0;
		ssize_t n = send(fd, at, part, MSG_DONTWAIT | MSG_NOSIGNAL | held);

		if (n < 0 && errno != EAGAIN)
			fail("send: %s", strerror(errno));
		if (n > 0) {
			at += n;
			left -= (size_t) n;
		}
	}
}

static void finish(void)
{
	char *at = incoming;

	while (to_come) {
		ssize_t n = recv(fd, at, to_come, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			fail("recv: %s", n ? strerror(errno) : "end of stream");
		if (n > 0) {
			at += n;
			to_come -= (size_t) n;
		}
	}
}

int main(int argc, char **argv)
{
	const struct carrier carrier = { expect, send_all, finish };
	struct sockaddr_in address = { .sin_family = AF_INET };
	int is_server, on = 1, listener;

	if (argc != 6)
		fail("usage: sockets server|client NODE PORT latency|rate|calls|bandwidth COUNT");
	one_by_one = !strcmp(argv[4], "calls");
	if (one_by_one)
		argv[4] = "rate";
	is_server = !strcmp(argv[1], "server");
	address.sin_port = htons((uint16_t) atoi(argv[3]));
	if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		fail("%s is no address", argv[2]);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (is_server) {
		listener = fd;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(listener, (void *) &address, sizeof(address)) || listen(listener, 1))
			fail("%s %s: %s", argv[2], argv[3], strerror(errno));
		ready();
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			fail("accept: %s", strerror(errno));
	} else if (connect(fd, (void *) &address, sizeof(address))) {
		fail("connect: %s", strerror(errno));
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	measure(&carrier, is_server, argv + 4);
	return 0;
}
