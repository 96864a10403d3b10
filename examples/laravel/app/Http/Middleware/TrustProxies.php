<?php

namespace App\Http\Middleware;

use Illuminate\Http\Request;

/** Only entries that these proxies have appended to X-Forwarded-For are believed. $request->ip() is the right-most other entry. */
class TrustProxies extends \Illuminate\Http\Middleware\TrustProxies
{
    protected $headers = Request::HEADER_X_FORWARDED_FOR;

    protected function proxies()
    {
        return config('app.trusted_proxies');
    }
}
