<?php

$root = dirname(__DIR__);
if (is_file("$root/vendor/autoload.php")) {
    require "$root/vendor/autoload.php"; // installed by Composer
} else {
    require 'Illuminate/autoload.php'; // the Debian package php-laravel-framework
    spl_autoload_register(fn ($class) => str_starts_with($class, 'App\\')
        && require "$root/app/" . strtr(substr($class, 4), '\\', '/') . '.php');
}

$app = new Illuminate\Foundation\Application($root);
$app->singleton(Illuminate\Contracts\Http\Kernel::class, App\Http\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, App\Exceptions\Handler::class);
$kernel = $app->make(Illuminate\Contracts\Http\Kernel::class);
$request = Illuminate\Http\Request::capture();
$response = $kernel->handle($request)->send();
$kernel->terminate($request, $response);
