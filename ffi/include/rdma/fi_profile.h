/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Profiling: variables that can be read and events that can be watched.
 */
#ifndef FI_PROFILE_H
#define FI_PROFILE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a variable is an enum fi_datatype or a structure named by enum fi_type */
enum fi_profile_type {
	fi_primitive_type,
	fi_defined_type,
};

/* Common variables */
enum {
	FI_VAR_UNEXP_MSG_CNT	= 0,
	FI_VAR_UNEXP_MSG_QUEUE	= 1,
	FI_VAR_MSG_QUEUE_CNT	= 2,
	FI_VAR_CONNECTION_CNT	= 3,
	FI_VAR_CONN_REQUEST	= 4,
	FI_VAR_CONN_ACCEPT	= 5,
	FI_VAR_CONN_REJECT	= 6,
	FI_VAR_OFI_MEM		= 7,
};

/* Common events */
enum {
	FI_EVENT_UNEXP_MSG_RECVD	= 0,
	FI_EVENT_UNEXP_MSG_MATCHED	= 1,
};

/* Describes a variable, or what comes with an event */
struct fi_profile_desc {
	uint32_t		id;
	enum fi_profile_type	datatype_sel;
	union {
		enum fi_datatype primitive;
		enum fi_type	defined;
	} datatype;
	uint64_t		flags;
	size_t			size;		/* bytes */
	const char		*name;
	const char		*desc;
};

struct fid_profile;

/* param and size are the event's data, described by the entry */
typedef int (*fi_profile_callback_t)(struct fid_profile *prof_fid,
				     struct fi_profile_desc *event,
				     void *param, size_t size, void *context);

struct fi_profile_ops {
	size_t	size;
	void	(*reset)(struct fid_profile *prof_fid, uint64_t flags);
	ssize_t	(*query_vars)(struct fid_profile *prof_fid,
			      struct fi_profile_desc *varlist, size_t *count);
	ssize_t	(*query_events)(struct fid_profile *prof_fid,
				struct fi_profile_desc *eventlist, size_t *count);
	ssize_t	(*read_var)(struct fid_profile *prof_fid, uint32_t var_id,
			    void *data, size_t *size);
	int	(*reg_callback)(struct fid_profile *prof_fid, uint32_t event_id,
				fi_profile_callback_t cb, void *context);
	void	(*start_reads)(struct fid_profile *prof_fid, uint64_t flags);
	void	(*end_reads)(struct fid_profile *prof_fid, uint64_t flags);
};

struct fid_profile {
	struct fid		fid;
	struct fi_profile_ops	*ops;
};

/*
 * Profile of an endpoint or domain.  The provider answers with the address of the
 * ops member of its struct fid_profile.
 */
static inline int
fi_profile_open(struct fid *fid, uint64_t flags, struct fid_profile **prof_fid,
		void *context)
{
	void *ops = NULL;
	int ret = fi_open_ops(fid, "fi_profile_ops", flags, &ops, context);

	if (!ret)
		*prof_fid = (struct fid_profile *)
			((char *) ops - offsetof(struct fid_profile, ops));
	return ret;
}

static inline int fi_profile_close(struct fid_profile *prof_fid)
{
	return prof_fid->fid.ops->close(&prof_fid->fid);
}

static inline void fi_profile_reset(struct fid_profile *prof_fid, uint64_t flags)
{
	prof_fid->ops->reset(prof_fid, flags);
}

/* Number of variables; *count is the room in varlist on entry, what was filled on return. */
static inline ssize_t
fi_profile_query_vars(struct fid_profile *prof_fid, struct fi_profile_desc *varlist,
		      size_t *count)
{
	return prof_fid->ops->query_vars(prof_fid, varlist, count);
}

static inline ssize_t
fi_profile_query_events(struct fid_profile *prof_fid, struct fi_profile_desc *eventlist,
			size_t *count)
{
	return prof_fid->ops->query_events(prof_fid, eventlist, count);
}

static inline ssize_t
fi_profile_read_u64(struct fid_profile *prof_fid, uint32_t var_id, uint64_t *data)
{
	size_t size = sizeof(*data);

	return prof_fid->ops->read_var(prof_fid, var_id, data, &size);
}

static inline int
fi_profile_register_callback(struct fid_profile *prof_fid, uint32_t event_id,
			     fi_profile_callback_t cb, void *context)
{
	return prof_fid->ops->reg_callback(prof_fid, event_id, cb, context);
}

/* Variables read between the two belong to one moment. */
static inline void fi_profile_start_reads(struct fid_profile *prof_fid, uint64_t flags)
{
	prof_fid->ops->start_reads(prof_fid, flags);
}

static inline void fi_profile_end_reads(struct fid_profile *prof_fid, uint64_t flags)
{
	prof_fid->ops->end_reads(prof_fid, flags);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROFILE_H */
