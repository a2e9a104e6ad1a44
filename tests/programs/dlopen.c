/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -ldl */
/*
 * Loads an object from beside the program, runs its code, unloads it, and
 * again: the address space changes while the program runs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	int round, sum = 0;
	char *slash;

	if (n <= 0)
		return 1;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return 1;
	memcpy(slash + 1, "dlobj", sizeof("dlobj"));
	for (round = 0; round < 3; round++) {
		void *object = dlopen(path, RTLD_NOW);
		int (*work)(int);
		void *sym = object ? dlsym(object, "dlobj_work") : NULL;

		if (!sym) {
			printf("dlopen: %s\n", dlerror());
			return 1;
		}
		memcpy(&work, &sym, sizeof(work));
		sum += work(20 + round);
		dlclose(object);
	}
	printf("dlopen: %d\n", sum);
	return 0;
}
