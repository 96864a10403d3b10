/* Driver of hiredis; see README.md. It has one caller per process. */

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *checks, *addresses = "", *user, *password, *prefix = "", *until;
static redisContext *client;
static char problem[512];

/* fail records the problem of a check, and returns 0. */
static int fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    return 0;
}

/* write_text writes a JSON string. */
static void write_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_10ms(void) {
    struct timespec t = {0, 10 * 1000 * 1000};
    nanosleep(&t, NULL);
}

/* setup checks the reply to a command that prepares the connection, and returns 0 if the reply is an error. */
static int setup(redisContext *c, redisReply *reply) {
    if (reply == NULL) return fail("connection: %s", c->errstr);
    if (reply->type == REDIS_REPLY_ERROR) fail("error reply: %s", reply->str);
    int ok = reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return ok;
}

/* dial opens a connection to the first address. */
static redisContext *dial(const char *secret) {
    char host[64];
    int port = 0;
    struct timeval timeout = {2, 0};
    if (sscanf(addresses, "%63[^:]:%d", host, &port) != 2) return fail("wrong address %s", addresses), NULL;
    redisContext *c = redisConnectWithTimeout(host, port, timeout);
    if (c == NULL || c->err) return fail("connection: %s", c ? c->errstr : "no memory"), redisFree(c), NULL;
    redisSetTimeout(c, timeout);
    int ok = 1;
    if ( secret != NULL && user != NULL) ok = setup(c, redisCommand(c, "AUTH %s %s", user, secret));
    else if (ok && secret != NULL) ok = setup(c, redisCommand(c, "AUTH %s", secret));
    if (!ok) return redisFree(c), NULL;
    return c;
}

/* call makes a call, and returns NULL if it fails. A connection that has failed is opened anew. */
static redisReply *call(const char *check, const char *burst, const char *count, const char *period) {
    if (client == NULL && (client = dial(password)) == NULL) return NULL;
    redisReply *reply = redisCommand(client, "CL.THROTTLE %s:%s %s %s %s", prefix, check, burst, count, period);
    if (reply == NULL) {
        fail("connection: %s", client->errstr);
        redisFree(client);
        client = NULL;
        return NULL;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        fail("error reply: %s", reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5) {
        fail("the reply has type %d and %zu elements", reply->type, reply->elements);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static int check_connect(void) {
    static const long long want[] = {0, 16, 15, -1, 2};
    redisReply *reply = call("connect", "15", "30", "60");
    if (reply == NULL) return 0;
    int ok = 1;
    for (size_t i = 0; i < 5; i++)
        if (reply->element[i]->integer != want[i]) ok = fail("element %zu is %lld, want %lld", i, reply->element[i]->integer, want[i]);
    freeReplyObject(reply);
    return ok;
}

/* expect_remaining checks the third element of a reply. */
static int expect_remaining(const redisReply *reply, long long want) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5) return fail("a reply has type %d: %s", reply->type, reply->str ? reply->str : "");
    if (reply->element[2]->integer != want) return fail("%lld remain, want %lld", reply->element[2]->integer, want);
    return 1;
}

static int check_pipeline(void) {
    int ok = 1;
    for (int i = 0; i < 1000; i++) redisAppendCommand(client, "CL.THROTTLE %s:pipeline 999 1 3600", prefix);
    for (int i = 999; i >= 0; i--) {
        redisReply *reply;
        if (redisGetReply(client, (void **)&reply) != REDIS_OK) return fail("connection: %s", client->errstr);
        ok = ok && expect_remaining(reply, i);
        freeReplyObject(reply);
    }
    return ok;
}

static int check_transaction(void) {
    if (!setup(client, redisCommand(client, "MULTI"))) return 0;
    for (int i = 0; i < 10; i++)
        if (!setup(client, redisCommand(client, "CL.THROTTLE %s:transaction 9 1 3600", prefix))) return 0;
    redisReply *reply = redisCommand(client, "EXEC");
    if (reply == NULL) return fail("connection: %s", client->errstr);
    int ok = reply->type == REDIS_REPLY_ARRAY && reply->elements == 10;
    if (!ok) fail("EXEC: type %d, %zu elements", reply->type, reply->elements);
    for (size_t i = 0; ok && i < 10; i++) ok = expect_remaining(reply->element[i], 9 - (long long)i);
    freeReplyObject(reply);
    return ok;
}

static int check_error(void) {
    redisReply *reply = call("error", "x", "1", "60");
    if (reply != NULL || strncmp(problem, "error reply: ", 13) != 0 || strstr(problem, "max_burst") == NULL)
        return fail("no error reply with max_burst");
    reply = call("error", "15", "30", "60");
    if (reply == NULL) return 0;
    freeReplyObject(reply);
    return 1;
}

static int check_auth(void) {
    redisContext *c = dial("wrong");
    if (c != NULL) return redisFree(c), fail("a wrong password is accepted");
    return strstr(problem, "WRONGPASS") != NULL;
}

static int admitted;

static int check_concurrent(void) {
    for (int i = 0; i < 4; i++) {
        redisReply *reply = call("concurrent", "99", "1", "3600");
        if (reply == NULL) return 0;
        admitted += reply->element[0]->integer == 0;
        freeReplyObject(reply);
    }
    return 1;
}

static int failed;

static int check_reconnect(void) {
    redisReply *reply = call("reconnect", "15", "30", "60");
    if (reply == NULL) return 0;
    freeReplyObject(reply);
    printf("{\"check\": \"reconnect\", \"event\": \"ready\"}\n");
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL) return fail("no line on standard input");
    for (double deadline = now() + 10; now() < deadline; pause_10ms()) {
        if ((reply = call("reconnect", "15", "30", "60")) != NULL) return freeReplyObject(reply), 1;
        failed++;
    }
    return 0;
}

#define KINDS 8

static struct {
    long succeeded, failed;
    double gap, last;
    struct {
        char text[200];
        int count;
    } errors[KINDS]; /* further kinds are counted in the last element */
} load;

static void note_error(void) {
    int i = 0;
    load.failed++;
    while (i < KINDS - 1 && load.errors[i].count > 0 && strncmp(load.errors[i].text, problem, sizeof load.errors[i].text - 1) != 0) i++;
    snprintf(load.errors[i].text, sizeof load.errors[i].text, "%.199s", problem);
    load.errors[i].count++;
}

static void note_success(void) {
    double t = now();
    if (t - load.last > load.gap) load.gap = t - load.last;
    load.last = t;
    if (++load.succeeded == 100) {
        load.gap = 0; /* without the time in which the client connects */
        printf("{\"check\": \"load\", \"event\": \"begun\"}\n");
    }
}

static int check_load(void) {
    for (load.last = now(); access(until, F_OK) != 0; pause_10ms()) {
        redisReply *reply = call("load", "1000000", "1000000", "60");
        if (reply == NULL) {
            note_error();
            continue;
        }
        freeReplyObject(reply);
        note_success();
    }
    return 1;
}

static void write_load(void) {
    double silent = now() - load.last;
    printf(", \"calls\": %ld, \"gap_ms\": %.1f, \"last_ms\": %.1f, \"errors\": [{", load.succeeded + load.failed,
           1000 * (silent > load.gap ? silent : load.gap), 1000 * silent);
    for (int i = 0; i < KINDS && load.errors[i].count > 0; i++) {
        if (i > 0) printf(", ");
        write_text(load.errors[i].text);
        printf(": %d", load.errors[i].count);
    }
    printf("}]");
}

static const struct {
    const char *name;
    int (*run)(void);
} table[] = {
    {"connect", check_connect}, {"pipeline", check_pipeline},     {"transaction", check_transaction}, {"error", check_error},
    {"auth", check_auth},       {"concurrent", check_concurrent}, {"reconnect", check_reconnect},     {"load", check_load},
};

/* run runs a check with an open connection. */
static int run(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, name) != 0) continue;
        if (client == NULL && (client = dial(password)) == NULL) return 0;
        return table[i].run();
    }
    return fail("unknown check");
}

static void report(const char *name) {
    problem[0] = 0;
    int ok = run(name);
    printf("{\"check\": \"%s\", \"ok\": %s, \"detail\": ", name, ok ? "true" : "false");
    write_text(ok ? "" : problem);
    if (strcmp(name, "concurrent") == 0) printf(", \"admitted\": %d", admitted);
    if (strcmp(name, "reconnect") == 0) printf(", \"failed\": %d", failed);
    if (strcmp(name, "load") == 0) write_load();
    puts("}");
}

static void parse(int argc, char **argv) {
    const char *ignored;
    struct {
        const char *name;
        const char **value;
    } flags[] = {{"check", &checks}, {"addr", &addresses}, {"user", &user}, {"password", &password},
                 {"key", &prefix},   {"until", &until},    {"mode", &ignored}, {"callers", &ignored}};
    for (int i = 1; i + 1 < argc; i += 2)
        for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
            if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, flags[j].name) == 0) *flags[j].value = argv[i + 1];
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv);
    char *list = strdup(checks ? checks : "");
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        if (strcmp(name, "version") == 0)
            printf("{\"check\": \"version\", \"ok\": true, \"detail\": \"%d.%d.%d\"}\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
        else
            report(name);
    }
    free(list);
    return 0;
}
