/* Table 1 of the SCALE paper on POSIX threads: pthreads ROW WAITING ROUNDS, a line of JSON. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIBERS 10
static pthread_mutex_t mutexes[FIBERS];
static sem_t gate, finished;
static long laps, rounds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *waits(void *arg)
{
    sem_wait(&gate);
    return arg;
}

static void *yields(void *arg)
{
    for (long i = 0; i < rounds / 2; i++)
        sched_yield();
    return arg;
}

/* As in the paper: each waits for its own mutex and then frees that of the next. */
static void *link_of_chain(void *arg)
{
    long place = (long)arg;
    for (long lap = 0; lap < laps; lap++) {
        pthread_mutex_lock(&mutexes[place]);
        if (place == FIBERS - 1 && lap == laps - 1)
            sem_post(&finished);
        else
            pthread_mutex_unlock(&mutexes[(place + 1) % FIBERS]);
    }
    return NULL;
}

static void *nothing(void *arg) { return arg; }

static pthread_t start(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    if (pthread_create(&thread, &attr, body, arg) != 0) {
        fprintf(stderr, "pthreads: no more threads\n");
        exit(3);
    }
    pthread_attr_destroy(&attr);
    return thread;
}

static double measure(const char *row)
{
    double begin = now();
    if (!strcmp(row, "mutex")) {
        for (long i = 0; i < rounds; i++) {
            pthread_mutex_lock(&mutexes[0]);
            pthread_mutex_unlock(&mutexes[0]);
        }
    } else if (!strcmp(row, "semaphore")) {
        for (long i = 0; i < rounds; i++) {
            sem_post(&finished);
            sem_wait(&finished);
        }
    } else if (!strcmp(row, "yield")) {
        pthread_t other = start(yields, NULL);
        yields(NULL);
        pthread_join(other, NULL);
    } else if (!strcmp(row, "chain")) {
        pthread_t links[FIBERS];
        laps = rounds / FIBERS;
        for (long i = 0; i < FIBERS; i++) {
            pthread_mutex_lock(&mutexes[i]);
            links[i] = start(link_of_chain, (void *)i);
        }
        sched_yield();
        begin = now();
        pthread_mutex_unlock(&mutexes[0]);
        sem_wait(&finished);
        double end = now();
        for (int i = 0; i < FIBERS; i++)
            pthread_join(links[i], NULL);
        return (end - begin) / (double)(laps * FIBERS);
    } else if (!strcmp(row, "create")) {
        for (long i = 0; i < rounds; i++)
            pthread_join(start(nothing, NULL), NULL);
    } else {
        exit(2);
    }
    return (now() - begin) / (double)rounds;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    long waiting = atol(argv[2]);
    rounds = atol(argv[3]);
    sem_init(&gate, 0, 0);
    sem_init(&finished, 0, 0);
    for (int i = 0; i < FIBERS; i++)
        pthread_mutex_init(&mutexes[i], NULL);
    for (long i = 0; i < waiting; i++)
        pthread_detach(start(waits, NULL));
    double ns = measure(argv[1]);
    printf("{\"program\": \"pthreads\", \"row\": \"%s\", \"waiting\": %ld, \"ns\": %.3f}\n", argv[1], waiting, ns);
    fflush(stdout);
    _Exit(0);
}
