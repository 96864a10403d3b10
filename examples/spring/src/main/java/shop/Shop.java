package shop;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.servlet.config.annotation.InterceptorRegistry;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

/** An application with two limits: logins by address, and all requests by user or address. */
@SpringBootApplication
@RestController
class Shop implements WebMvcConfigurer {
    private final RateLimit rateLimit;

    Shop(RateLimit rateLimit) {
        this.rateLimit = rateLimit;
    }

    public static void main(String[] args) {
        SpringApplication.run(Shop.class, args);
    }

    @Override
    public void addInterceptors(InterceptorRegistry registry) {
        registry.addInterceptor(rateLimit);
    }

    @PostMapping("/login")
    Map<String, Object> login() {
        return Map.of("ok", true);
    }

    @GetMapping("/api/items")
    Map<String, Object> items() {
        return Map.of("items", List.of());
    }

    /** Replace it by Spring Security. It must verify the user: names that clients can invent would evade the limit. */
    @Component
    static class TokenAuthentication extends OncePerRequestFilter {
        private static final Map<String, String> TOKENS = Map.of("Bearer token-of-ann", "ann", "Bearer token-of-bob", "bob");

        @Override
        protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                throws ServletException, IOException {
            String user = TOKENS.get(Objects.toString(request.getHeader("Authorization"), ""));
            chain.doFilter(new HttpServletRequestWrapper(request) {
                @Override
                public String getRemoteUser() {
                    return user;
                }
            }, response);
        }
    }
}
