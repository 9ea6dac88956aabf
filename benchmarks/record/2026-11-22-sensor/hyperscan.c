/* What Hyperscan (or Vectorscan) takes for the patterns and payloads that the example `matchers --write` leaves:
 * cc -O2 -o hyperscan hyperscan.c $(pkg-config --cflags --libs libhs) && ./hyperscan PATTERNS PAYLOADS
 * Each pattern is a literal in either case, as a sensor's multi-pattern matcher has it. Prints the median of five rounds.
 */
#include <hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_LINES 20000
#define ROUNDS 5

static unsigned char *bytes[MAX_LINES];
static size_t lengths[MAX_LINES];

/* Lines of hexadecimal digits. */
static int read_lines(const char *path)
{
	static char line[8192];
	int count = 0;
	FILE *file = fopen(path, "r");

	if (!file) {
		perror(path);
		exit(1);
	}
	while (count < MAX_LINES && fgets(line, sizeof(line), file)) {
		size_t len = strcspn(line, "\n") / 2;
		bytes[count] = malloc(len + 1);
		for (size_t i = 0; i < len; i++)
			sscanf(line + 2 * i, "%2hhx", &bytes[count][i]);
		lengths[count++] = len;
	}
	fclose(file);
	return count;
}

static int found(unsigned int id, unsigned long long from, unsigned long long to, unsigned int flags, void *context)
{
	(void)id, (void)from, (void)to, (void)flags;
	++*(unsigned long *)context;
	return 0;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const char *expressions[MAX_LINES];
	static unsigned int flags[MAX_LINES], ids[MAX_LINES];
	hs_database_t *database;
	hs_compile_error_t *error;
	hs_scratch_t *scratch = NULL;
	double each[ROUNDS];
	unsigned long matches = 0;
	size_t size = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: hyperscan PATTERNS PAYLOADS\n");
		return 2;
	}
	int patterns = read_lines(argv[1]);
	size_t pattern_lengths[MAX_LINES];
	for (int i = 0; i < patterns; i++) {
		expressions[i] = (const char *)bytes[i];
		pattern_lengths[i] = lengths[i];
		flags[i] = HS_FLAG_CASELESS;
		ids[i] = i;
	}
	if (hs_compile_lit_multi(expressions, flags, ids, pattern_lengths, patterns, HS_MODE_BLOCK, NULL, &database, &error)) {
		fprintf(stderr, "%s\n", error->message);
		return 1;
	}
	if (hs_alloc_scratch(database, &scratch))
		return 1;
	hs_database_size(database, &size);
	int payloads = read_lines(argv[2]);
	for (int round = 0; round < ROUNDS; round++) {
		double began = now();
		unsigned long done = 0;
		while (now() - began < 3e8) {
			for (int i = 0; i < payloads; i++)
				hs_scan(database, (const char *)bytes[i], lengths[i], 0, scratch, found, &matches);
			done += payloads;
		}
		each[round] = (now() - began) / done;
	}
	qsort(each, ROUNDS, sizeof(each[0]), compare);
	printf("%d patterns, %zu KiB, %.0f ns per payload of %zu bytes, %lu matches\n", patterns, size >> 10, each[ROUNDS / 2],
	       lengths[0], matches);
	return 0;
}
