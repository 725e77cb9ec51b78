/* denied PROGRAM ARGS: runs a program without direct copies between processes, as sandboxes do. */
#include "../hosts/deny.h"

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    deny_copies(EPERM);
    execvp(argv[1], argv + 1);
    FAIL("%s: %s", argv[1], strerror(errno));
}
