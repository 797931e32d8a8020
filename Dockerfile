# docker build -t edgewise . && docker run --rm -v "$PWD":/work edgewise tour
# The first stage has git, which tells the version; nothing of it but the wheel is in the image.
FROM docker.io/library/python:3.12 AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM docker.io/library/python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[engines,charts]"
WORKDIR /work
ENTRYPOINT ["edgewise"]
CMD ["--help"]
