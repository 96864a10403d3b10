# The container image: one static program, without a shell. VERSION is the version that the program prints.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/throttled ./cmd/throttled && \
    packaging/copyright.sh >/out/LICENSES && mkdir /out/data /out/certs

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/throttled /out/LICENSES /
# A new volume gets the owner of the directory where it is mounted.
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/certs /certs
USER 65532:65532
WORKDIR /data
# Without a password, protected mode refuses clients on other hosts.
ENV THROTTLED_BIND=* THROTTLED_DIR=/data
EXPOSE 6380
VOLUME /data
# Reads the options of the server from the environment, so set them there, and not as arguments.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/throttled", "health"]
ENTRYPOINT ["/throttled"]
