# Driver of the Perl module Redis; see README.md. It has one caller per process.

use strict;
use warnings;
use Getopt::Long;
use IO::Handle;
use JSON::PP;
use List::Util qw(max);
use Redis;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC usleep);

my %options = (mode => 'standalone', addr => '');
GetOptions(\%options, map { "$_=s" } qw(check addr mode resp user password tls-ca key callers until)) or exit 2;
my @addresses = split /,/, $options{addr};

sub write_line {
    my ($check, %fields) = @_;
    print encode_json({check => $check, %fields}), "\n";
    STDOUT->flush;
}

# Opens a client, which connects again for up to a second after an error.
sub open_client {
    my ($password) = @_;
    my %settings = (reconnect => 1, every => 50_000);
    $settings{password} = $password if defined $password;
    $settings{username} = $options{user} if defined $options{user};
    return Redis->new(server => $addresses[0], %settings);
}

my $client;
my $method = 'CL.THROTTLE';

sub throttle { my ($check, @limit) = @_; return ("$options{key}:$check", @limit) }
sub call { return scalar $client->$method(@_) }

sub expect {
    my ($got, $want) = map { encode_json($_) } @_;
    s/"(-?\d+)"/$1/g for $got, $want;
    die "got $got, want $want\n" unless $got eq $want;
}

sub fails {
    my ($text, $call) = @_;
    my $reply = eval { $call->(); 1 };
    die "got no error, want one with $text\n" if $reply;
    die "got $@, want an error with $text\n" unless $@ =~ /$text/;
}

sub remaining { return [map { $_->[2] } @_] }

my %checks = (
    connect => sub { expect(call(throttle('connect', 15, 30, 60)), [0, 16, 15, -1, 2]); return },
    pipeline => sub {
        my @replies;
        for (1 .. 1000) {
            $client->$method(throttle('pipeline', 999, 1, 3600), sub { my ($reply, $error) = @_; die $error if defined $error; push @replies, $reply });
        }
        $client->wait_all_responses;
        expect(remaining(@replies), [reverse 0 .. 999]);
        return;
    },
    transaction => sub {
        $client->multi;
        $client->$method(throttle('transaction', 9, 1, 3600)) for 1 .. 10;
        expect(remaining($client->exec), [reverse 0 .. 9]);
        return;
    },
    error => sub {
        fails('max_burst', sub { call(throttle('error', 'x', 1, 60)) });
        expect(scalar @{call(throttle('error', 15, 30, 60))}, 5);
        return;
    },
    auth => sub { fails('WRONGPASS', sub { open_client('wrong')->ping }); return },
    concurrent => sub {
        my $admitted = grep { call(throttle('concurrent', 99, 1, 3600))->[0] == 0 } 1 .. 4;
        return (admitted => $admitted);
    },
    reconnect => sub {
        my @args = throttle('reconnect', 15, 30, 60);
        call(@args);
        write_line('reconnect', event => 'ready');
        my $line = <STDIN>;
        my $deadline = clock_gettime(CLOCK_MONOTONIC) + 10;
        for (my $failed = 0; ; $failed++) {
            return (failed => $failed) if eval { call(@args); 1 };
            die $@ if clock_gettime(CLOCK_MONOTONIC) > $deadline;
            usleep(10_000);
        }
    },
    load => \&load_check,
);

sub load_check {
    my @args = throttle('load', 1_000_000, 1_000_000, 60);
    my ($succeeded, $failed, $gap, %errors) = (0, 0, 0);
    my $last = clock_gettime(CLOCK_MONOTONIC);
    for (; !-e $options{until}; usleep(10_000)) {
        if (!eval { call(@args); 1 }) {
            $failed++;
            $errors{substr $@, 0, 200}++;
            next;
        }
        my $now = clock_gettime(CLOCK_MONOTONIC);
        ($gap, $last) = (max($gap, $now - $last), $now);
        if (++$succeeded == 100) {
            $gap = 0; # without the time in which the client connects
            write_line('load', event => 'begun');
        }
    }
    my $silent = clock_gettime(CLOCK_MONOTONIC) - $last;
    return (calls => $succeeded + $failed, gap_ms => 1000 * max($gap, $silent), last_ms => 1000 * $silent, errors => [\%errors]);
}

for my $name (split /,/, $options{check}) {
    if ($name eq 'version') {
        write_line($name, ok => JSON::PP::true, detail => "$Redis::VERSION");
        next;
    }
    my %fields = eval { $client //= open_client($options{password}); (ok => JSON::PP::true, $checks{$name}->()) };
    %fields = (ok => JSON::PP::false, detail => "$@") if $@;
    write_line($name, %fields);
}
