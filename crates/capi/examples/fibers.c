/*
 * Fibers in C: a function with several arguments as a fiber, a barrier, a chain of semaphores, a posted condition.
 *
 *     cc fibers.c $(pkg-config --cflags --libs cdp) && ./a.out
 */
#include <cdp.h>
#include <fiber.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, cdp_error());
        exit(1);
    }
}

/* An ordinary function: nothing in it knows of fibers. */
static intptr_t volume(int length, int width, int height, const char *unit)
{
    (void)unit;
    return (intptr_t)length * width * height;
}

static struct fiber_sem turns[3];
static uint64_t laps, wanted = 10;

static intptr_t runner(int place)
{
    for (uint64_t lap = 0; lap < wanted; lap++) {
        must(fiber_sem_wait(&turns[place], FIBER_FOREVER), "wait");
        if (place == 2)
            laps++;
        must(fiber_sem_post(&turns[(place + 1) % 3]), "post");
    }
    return place;
}

/* Waits until the runners have made their laps: the worker looks at the two words. */
static intptr_t referee(void)
{
    must(fiber_wait_words(&laps, FIBER_NOT_LESS, &wanted, FIBER_FOREVER), "wait for the laps");
    return (intptr_t)laps;
}

int main(void)
{
    fiber_t box, judge, runners[3];
    intptr_t result;

    must(fiber_init(NULL), "init");
    must(fiber_create(&box, NULL, volume, 2, 3, 7, "m3"), "create");
    must(fiber_join(box, FIBER_FOREVER, &result), "join");
    printf("volume %ld\n", (long)result);

    must(fiber_create_array(&judge, NULL, (const void *)referee, 0, NULL), "create");
    /* a runner posts the semaphore of the next: all are there before the first runs */
    for (int place = 0; place < 3; place++)
        must(fiber_sem_init(&turns[place], place == 0), "init of a semaphore");
    for (int place = 0; place < 3; place++)
        must(fiber_create(&runners[place], NULL, runner, place), "create");
    must(fiber_join(judge, FIBER_FOREVER, &result), "join");
    printf("laps %ld\n", (long)result);
    for (int place = 0; place < 3; place++)
        must(fiber_join(runners[place], FIBER_FOREVER, NULL), "join");
    must(fiber_shutdown(), "shutdown");
    return 0;
}
