# cdma with all that its tests need, on Debian 12. `docker build -t cdma .`, then
#
#   docker run --rm cdma                            what `make run` does
#   docker run --rm -v "$PWD:/data" -w /data cdma cdma generate engine --out rtl
#   docker run --rm cdma make test
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates g++ git make python3 python3-venv \
      chromium iverilog libpython3.11 liblz4-dev zlib1g-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /cdma
COPY . .
# The versions that the documents' figures were made with.
RUN make .venv/.dev LOCKED=1
ENV PATH="/cdma/.venv/bin:$PATH"
CMD ["make", "run"]
