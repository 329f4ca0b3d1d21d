/* Names of a cluster file: nodes that are opened by theirs, and reached by those of others. */
#include "check.h"
#include <unistd.h>

/* Which addresses the nodes have, as tests of both libraries may run at once. */
static char cluster[] = "/tmp/cdp-names-XXXXXX";

static void write_cluster(const char *mode)
{
    FILE *file = fopen(cluster, "w");
    CHECK(file != NULL);
    unsigned host = (unsigned)getpid() % 256;
    unsigned net = (unsigned)getpid() / 256 % 32 + 32;
    fprintf(file, "mode = \"%s\"\n[services]\nstorage = 2000\n", mode);
    fprintf(file, "[[node]]\nname = \"login\"\nnumber = 1\nat = \"127.%u.%u.1\"\n", net, host);
    fprintf(file, "[[node]]\nname = \"compute-17\"\nnumber = 17\nat = \"127.%u.%u.17\"\n", net, host);
    CHECK(fclose(file) == 0);
}

static int open_named(const char *name, uint32_t flags)
{
    struct cdp_node_config config = CDP_NODE_CONFIG_INIT;
    config.cluster = cluster;
    config.name = name;
    config.flags = flags;
    return cdp_node_open(&config);
}

/* A message goes from one named node to a service of another. */
static void by_name(void)
{
    struct cdp_addr there, bound = {0}, peer;
    char buffer[8];
    int here = open_named("login", 0), other = open_named("17", 0);
    CHECK(here > 0 && other > 0);
    CHECK(cdp_node_mode(here) == CDP_NODE_STRICT);
    CHECK(cdp_node_address(other, &peer) == 0 && peer.node == 17 && peer.underlay_port == CDP_UDP_PORT);

    int listener = cdp_socket_on(other, CDP_DATAGRAM);
    CHECK(cdp_node_resolve(other, "compute-17:storage", &bound) == 0 && bound.node == 17 && bound.port == 2000);
    CHECK(cdp_bind(listener, &bound) == 0 && cdp_listen(listener, 1) == 0);

    int s = cdp_socket_on(here, CDP_DATAGRAM);
    CHECK(cdp_node_resolve(here, "compute-17:storage", &there) == 0);
    CHECK(there.underlay == CDP_UNDERLAY_NONE && cdp_connect(s, &there) == 0);
    int a = cdp_accept(listener, &peer);
    CHECK(a > 0 && peer.node == 1);
    CHECK(cdp_send(s, "to 17", 5, 0) == 5 && cdp_recv(a, buffer, sizeof buffer, 0) == 5);

    FAILS(cdp_node_resolve(here, "compute-71:storage", &there), EHOSTUNREACH);
    CHECK(strstr(cdp_error(), "did you mean compute-17?") != NULL);
    FAILS(cdp_node_resolve(here, "compute-17:storge", &there), EINVAL);
    CHECK(strstr(cdp_error(), "did you mean storage?") != NULL);
    FAILS(cdp_node_resolve(here, "compute-17", &there), EINVAL);
    FAILS(cdp_node_resolve(here, "203.0.113.9:7", &there), EHOSTUNREACH);
    FAILS(cdp_node_resolve(here, NULL, &there), EFAULT);
    FAILS(cdp_node_resolve(here, "compute-17:7", NULL), EFAULT);
    FAILS(cdp_node_resolve(-1, "compute-17:7", &there), EBADF);
    FAILS(cdp_node_mode(-1), EBADF);

    CHECK(cdp_close(s) == 0 && cdp_close(a) == 0 && cdp_close(listener) == 0);
    CHECK(cdp_node_close(here, 60000) == 0 && cdp_node_close(other, 60000) == 0);
}

/* The flags go before the file, and an open node takes hosts that it does not name. */
static void modes(void)
{
    struct cdp_addr addr;
    int node = open_named("login", CDP_NODE_OPEN);
    CHECK(node > 0 && cdp_node_mode(node) == CDP_NODE_OPEN);
    CHECK(cdp_node_resolve(node, "203.0.113.9:echo", &addr) == 0);
    CHECK(addr.node == 0 && addr.port == 7 && addr.underlay == CDP_UNDERLAY_IPV4);
    CHECK(cdp_node_close(node, 0) == 0);

    write_cluster("open");
    CHECK((node = open_named("login", 0)) > 0 && cdp_node_mode(node) == CDP_NODE_OPEN);
    CHECK(cdp_node_close(node, 0) == 0);
    CHECK((node = open_named("login", CDP_NODE_STRICT)) > 0 && cdp_node_mode(node) == CDP_NODE_STRICT);
    CHECK(cdp_node_close(node, 0) == 0);
}

/* What is wrong with a file or a name is told before anything is opened. */
static void refused(void)
{
    FAILS(open_named("logon", 0), EINVAL);
    CHECK(strstr(cdp_error(), "did you mean login?") != NULL);
    FAILS(open_named(NULL, 0), EINVAL); /* both are on this host */
    CHECK(strstr(cdp_error(), "login, compute-17") != NULL);
    FAILS(open_named("login", CDP_NODE_OPEN | CDP_NODE_STRICT), EINVAL);
    write_cluster("closed");
    FAILS(open_named("login", 0), EINVAL);
    CHECK(strstr(cdp_error(), "line 1, column 8") != NULL);
    CHECK(unlink(cluster) == 0);
    FAILS(open_named("login", 0), ENOENT);
}

int main(void)
{
    int file = mkstemp(cluster);
    CHECK(file >= 0 && close(file) == 0);
    write_cluster("strict");
    by_name();
    modes();
    refused();
    printf("names: ok\n");
    return 0;
}
