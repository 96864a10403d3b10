<?php
// Driver of predis; see README.md.

require __DIR__ . '/checks.php';
require 'Predis/autoload.php';
error_reporting(E_ALL & ~E_DEPRECATED); // Debian's version is older than its PHP

final class Predis implements Client
{
    private Predis\Client $client;

    public function __construct(Options $options, ?string $password)
    {
        [$host, $port] = $options->addresses[0];
        $settings = array_filter(['username' => $options->user, 'password' => $password], fn ($value) => $value !== null);
        $tls = $options->ca === null ? ['scheme' => 'tcp'] : ['scheme' => 'tls', 'ssl' => ['cafile' => $options->ca, 'verify_peer' => true]];
        $this->client = new Predis\Client($tls + ['host' => $host, 'port' => $port, 'timeout' => 1] + $settings);
    }

    public function call(array $args)
    {
        $reply = $this->client->executeCommand(Predis\Command\RawCommand::create(...$args));
        if ($reply instanceof Predis\Response\ErrorInterface) {
            throw new Predis\Response\ServerException($reply->getMessage());
        }
        return $reply;
    }

    public function pipeline(array $commands): array
    {
        return $this->client->pipeline(fn ($pipe) => $this->queue($pipe, $commands));
    }

    public function transaction(array $commands): array
    {
        return $this->client->transaction(fn ($transaction) => $this->queue($transaction, $commands));
    }

    public function repeated(): int
    {
        return 0;
    }

    private function queue($target, array $commands): void
    {
        foreach ($commands as $args) {
            $target->executeCommand(Predis\Command\RawCommand::create(...$args));
        }
    }
}

main(Predis\Client::VERSION, fn (Options $options, ?string $password) => new Predis($options, $password), Predis\PredisException::class);
