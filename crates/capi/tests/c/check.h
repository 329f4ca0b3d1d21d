/* What the C tests are written in: checks that say what was found, and a pair of connected sockets. */
#ifndef CHECK_H
#define CHECK_H

#include <cdp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            printf("%s:%d: %s does not hold; errno %d, \"%s\"\n", __FILE__, __LINE__, #condition, errno, cdp_error()); \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

/* The call fails with this errno, and cdp_error() has words for it. */
#define FAILS(call, expected)                                                                                  \
    do {                                                                                                       \
        errno = 0;                                                                                             \
        long found = (long)(call);                                                                             \
        if (found != -1 || errno != (expected) || cdp_error()[0] == '\0') {                                    \
            printf("%s:%d: %s gave %ld, errno %d (\"%s\"), not -1 and %s\n", __FILE__, __LINE__, #call, found, \
                   errno, cdp_error(), #expected);                                                             \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

/* A node on the loopback interface. */
static inline int node_on_loopback(void)
{
    struct cdp_node_config config = CDP_NODE_CONFIG_INIT;
    config.bind = "127.0.0.1:0";
    int node = cdp_node_open(&config);
    CHECK(node > 0);
    return node;
}

/* A socket of node that listens, and its address. */
static inline int listener_on(int node, int service, struct cdp_addr *addr)
{
    int listener = cdp_socket_on(node, service);
    CHECK(listener > 0);
    CHECK(cdp_listen(listener, 8) == 0);
    CHECK(cdp_getsockname(listener, addr) == 0);
    CHECK(addr->port != 0 && addr->underlay == CDP_UNDERLAY_IPV4 && addr->underlay_port != 0);
    return listener;
}

static inline int option(int s, int number)
{
    int value = -77;
    size_t len = sizeof value;
    CHECK(cdp_getsockopt(s, number, &value, &len) == 0);
    return value;
}

static inline void set_option(int s, int number, int value)
{
    CHECK(cdp_setsockopt(s, number, &value, sizeof value) == 0);
}

#endif
