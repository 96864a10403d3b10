<?php

namespace App\Exceptions;

use Throwable;

class Handler extends \Illuminate\Foundation\Exceptions\Handler
{
    protected function shouldReturnJson($request, Throwable $e)
    {
        return true; // the application has no pages
    }
}
