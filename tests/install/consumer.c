/* A program as its user builds it against an installed library. */
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>

int main(void)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;
	int status;

	if (!hints)
		return 1;
	hints->caps = FI_MSG;
	status = fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &found);
	fi_freeinfo(hints);
	if (status && status != -FI_ENODATA) {
		fprintf(stderr, "fi_getinfo: %s\n", fi_strerror(-status));
		return 1;
	}
	fi_freeinfo(found);
	printf("%u.%u\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	return 0;
}
