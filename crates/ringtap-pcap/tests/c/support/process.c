#include "process.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder, "/proc is not mounted");
    while (readdir(folder))
        count++;
    closedir(folder);
    /* Without ".", ".." and the folder's own. */
    return count - 3;
}

long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1, "statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
