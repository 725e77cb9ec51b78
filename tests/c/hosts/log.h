/* The library's log in a file, and what it says. */
#ifndef LOG_H
#define LOG_H

#include "side.h"

static char log_path[64];

/* Lines of the log that have both words in them. */
static inline int lines_with(const char *one, const char *two) {
    char line[4096];
    int count = 0;
    FILE *file = fopen(log_path, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        count += strstr(line, one) && strstr(line, two);
    fclose(file);
    return count;
}

static inline void check_lines(int wanted, const char *one, const char *two) {
    int found = lines_with(one, two);
    if (found != wanted)
        FAIL("%d lines with \"%s\" and \"%s\", not %d", found, one, two, wanted);
}

static inline void name_log(pid_t pid) {
    snprintf(log_path, sizeof log_path, "/tmp/percale-hosts.%d", (int)pid);
}

/* Sends the log of this process to a file, which must be new. */
static inline void open_log(void) {
    name_log(getpid());
    unlink(log_path);
    setenv("FI_LOG_LEVEL", "warn", 1);
    setenv("FI_LOG_LOCATION", log_path, 1);
    /* The first line opens it, before descriptors are counted. */
    struct fi_info *none;
    CHECK(fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, NULL, &none) < 0);
    check_lines(1, "<warn>", "");
}

static inline void close_log(void) { unlink(log_path); }

#endif
