<?php

namespace App\Providers;

use Illuminate\Auth\GenericUser;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\ServiceProvider;

class AppServiceProvider extends ServiceProvider
{
    // Replace it by your authentication. It must verify the user: names that clients can invent would evade the limit.
    private const TOKENS = ['token-of-ann' => 'ann', 'token-of-bob' => 'bob'];

    public function boot(): void
    {
        Auth::viaRequest('token', function (Request $request) {
            $name = self::TOKENS[$request->bearerToken() ?? ''] ?? null;
            return $name ? new GenericUser(['id' => $name]) : null;
        });
        Route::middleware('limited')->group(base_path('routes/api.php'));
    }
}
