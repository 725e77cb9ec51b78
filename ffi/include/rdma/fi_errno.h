/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Error numbers.
 *
 * Calls return 0 or a count on success and a negative number on failure; the
 * numbers here are positive, so callers compare with -FI_E*.  Everything below
 * FI_ERRNO_OFFSET is an errno value of the system.
 */
#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_SUCCESS		0

/* Arguments and resources */
#define FI_EPERM		EPERM
#define FI_ENOENT		ENOENT
#define FI_EINTR		EINTR
#define FI_EIO			EIO
#define FI_E2BIG		E2BIG
#define FI_EBADF		EBADF
#define FI_EAGAIN		EAGAIN		/* nothing there or no room now: retry */
#define FI_EWOULDBLOCK		EWOULDBLOCK
#define FI_ENOMEM		ENOMEM
#define FI_EACCES		EACCES
#define FI_EFAULT		EFAULT
#define FI_EBUSY		EBUSY		/* objects opened from or bound to it live */
#define FI_ENODEV		ENODEV
#define FI_EINVAL		EINVAL
#define FI_EMFILE		EMFILE
#define FI_ENOSPC		ENOSPC
#define FI_ENOSYS		ENOSYS		/* the provider does not implement the call */
#define FI_EOVERFLOW		EOVERFLOW
#define FI_EALREADY		EALREADY
#define FI_EINPROGRESS		EINPROGRESS
#define FI_ECANCELED		ECANCELED	/* the operation was withdrawn by fi_cancel */
#define FI_EKEYREJECTED		EKEYREJECTED

/* Messages and protocol */
#define FI_ENOMSG		ENOMSG		/* a peek found no matching message */
#define FI_ENODATA		ENODATA
#define FI_EPROTO		EPROTO
#define FI_EMSGSIZE		EMSGSIZE
#define FI_ENOPROTOOPT		ENOPROTOOPT
#define FI_EOPNOTSUPP		EOPNOTSUPP

/* Addresses and connections */
#define FI_EADDRINUSE		EADDRINUSE
#define FI_EADDRNOTAVAIL	EADDRNOTAVAIL
#define FI_ENETDOWN		ENETDOWN
#define FI_ENETUNREACH		ENETUNREACH
#define FI_ECONNABORTED		ECONNABORTED
#define FI_ECONNRESET		ECONNRESET
#define FI_ENOBUFS		ENOBUFS
#define FI_EISCONN		EISCONN
#define FI_ENOTCONN		ENOTCONN
#define FI_ESHUTDOWN		ESHUTDOWN
#define FI_ETIMEDOUT		ETIMEDOUT
#define FI_ECONNREFUSED		ECONNREFUSED
#define FI_EHOSTDOWN		EHOSTDOWN
#define FI_EHOSTUNREACH		EHOSTUNREACH
#define FI_EREMOTEIO		EREMOTEIO

/* Where the fabric's own numbers begin; no system errno reaches this far. */
#define FI_ERRNO_OFFSET		256

enum {
	FI_EOTHER		= FI_ERRNO_OFFSET, /* anything without a better number */
	FI_ETOOSMALL		= 257,	/* buffer too short; the length says what is needed */
	FI_EOPBADSTATE		= 258,	/* not allowed in the object's present state */
	FI_EAVAIL		= 259,	/* an error entry waits to be read */
	FI_EBADFLAGS		= 260,	/* unknown or contradicting flags */
	FI_ENOEQ		= 261,	/* no event queue bound */
	FI_EDOMAIN		= 262,	/* objects of different domains mixed */
	FI_ENOCQ		= 263,	/* no completion queue bound */
	FI_ECRC			= 264,	/* checksum mismatch */
	FI_ETRUNC		= 265,	/* message longer than the posted buffer */
	FI_ENOKEY		= 266,	/* required key not available */
	FI_ENOAV		= 267,	/* no address vector bound */
	FI_EOVERRUN		= 268,	/* queue ran over, entries were lost */
	FI_ENORX		= 269,	/* peer has no receive buffer posted */
	FI_ENOMR		= 270,	/* no more memory can be registered */
	FI_EFIREWALLADDR	= 271,	/* peer is behind a firewall and must connect first */
	FI_ERRNO_MAX
};

/* Text of an error number of either sign; never NULL, owned by the library. */
const char *fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif /* FI_ERRNO_H */
