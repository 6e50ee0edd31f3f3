python -m sglang.launch_server # as before
  --enable-hierarchical-cache --hicache-ratio=1e6 \
  --hicache-write-policy write_back
